/* SPDX-License-Identifier: Apache-2.0 */
/* line.c: see remote.h. */
#include "cli/remote/remote.h"

int remote_line_fd(const struct remote_line *l)
{
	return l->ws ? ws_client_fd(l->ws) : -1;
}

int remote_line_patience_ms(const struct remote_line *l)
{
	uint64_t now = remote_now_ms();

	if (l->ws || l->is_over)
		return -1;
	return l->retry_at_ms > now ? (int)(l->retry_at_ms - now) : 0;
}

void remote_line_lose(struct remote_line *l)
{
	ws_client_free(l->ws);
	l->ws = NULL;
	l->attempt = 0;
	l->retry_at_ms = remote_now_ms();
}

int remote_line_rejoin(struct remote_line *l, int (*join)(void *user, struct cell_error *err),
	void *user, struct cell_error *err)
{
	struct cell_error why = {0};

	if (remote_now_ms() < l->retry_at_ms)
		return 0;
	int r = join(user, &why);
	if (r == 0) {
		l->attempt = 0;
		return 0;
	}
	int wait_ms = remote_is_away() ? remote_delay_ms(++l->attempt) : -1;
	if (wait_ms < 0) {
		if (err)
			*err = why;
		l->is_over = true;
		return r;
	}
	remote_tell_lost();
	l->retry_at_ms = remote_now_ms() + (uint64_t)wait_ms;
	return 0;
}
