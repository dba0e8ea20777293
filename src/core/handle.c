/* SPDX-License-Identifier: Apache-2.0 */
/* handle.c: a struct cell from nothing or from a record, and its end. Calling the chain of back
 * ends from the outside is here too, so that every error of one carries its name. */
#include "core/handle.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/code_defaults.h"
#include "core/guest_process.h"
#include "core/link.h"
#include "core/record.h"

struct cell *cell_handle_new(const char *name)
{
	struct cell *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	(void)snprintf(c->name, sizeof c->name, "%s", name);
	c->directory_fd = c->lock_fd = -1;
	c->guest.stream_fd = c->guest.pidfd = -1;
	c->record = json_object();
	if (!c->record) {
		free(c);
		return NULL;
	}
	return c;
}

void cell_handle_free(struct cell *c)
{
	if (!c)
		return;
	link_free(c->link);
	for (size_t i = 0; i < CELL_CHAIN_MAX; i++)
		free(c->states[i]);
	json_decref(c->record);
	cell_closep(&c->directory_fd);
	cell_closep(&c->lock_fd);
	cell_closep(&c->guest.stream_fd);
	cell_closep(&c->guest.pidfd);
	cell_record_list_free(&c->env);
	cell_record_list_free(&c->languages);
	cell_record_list_free(&c->databases);
	free(c->directory);
	free(c->cwd);
	free(c->user);
	free(c->warm);
	free(c);
}

void cell_handle_freep(struct cell **c)
{
	cell_handle_free(*c);
}

int cell_handle_set_chain(struct cell *c, const struct cell_backend *const *chain)
{
	for (size_t i = 0; chain[i]; i++) {
		c->chain[i] = chain[i];
		if (chain[i]->state_size && !(c->states[i] = calloc(1, chain[i]->state_size)))
			return -ENOMEM;
	}
	return 0;
}

void cell_handle_take_slot(struct cell *c, struct cell_slot *slot)
{
	c->directory = steal_ptr(slot->path);
	c->directory_fd = steal_fd(slot->fd);
	c->lock_fd = steal_fd(slot->lock_fd);
}

static int copy(char **ret, const json_t *record, const char *key)
{
	const char *s = cell_record_str(record, key);

	return s && !(*ret = strdup(s)) ? -ENOMEM : 0;
}

int cell_handle_from_record(const char *name, json_t *record, struct cell_slot *slot,
	struct cell **ret, struct cell_error *err)
{
	struct cell *c = cell_handle_new(name);
	const struct cell_backend *chain[CELL_CHAIN_MAX] = {0};
	int r;

	if (!c)
		return cell_fail_errno(err, ENOMEM, "open cell '%s'", name);
	cell_handle_take_slot(c, slot);
	if (record) {
		json_decref(c->record);
		c->record = json_incref(record);
	}
	c->is_ephemeral = json_is_true(json_object_get(record, "ephemeral"));
	c->caps = cell_record_caps(record, "caps");
	c->degraded = cell_record_caps(record, "degraded");
	c->timeout_ms = (uint64_t)cell_record_int(record, "timeout_ms", 0);
	r = copy(&c->cwd, record, "cwd");
	if (!r)
		r = copy(&c->user, record, "user");
	if (!r)
		r = cell_record_list(record, "env", &c->env);
	if (!r && record)
		r = code_defaults_load(c);
	const char *backend = cell_record_str(record, "backend");
	/* of another build: it can still be listed and removed, its guest be found */
	if (!r && backend && cell_backend_chain(backend, chain, NULL) == 0)
		r = cell_handle_set_chain(c, chain);
	if (r < 0) {
		cell_handle_free(c);
		return cell_fail_errno(err, -r, "open cell '%s'", name);
	}
	*ret = c;
	return 0;
}

static int named(const struct cell *c, int r, struct cell_error *err)
{
	if (r < 0 && err && c->chain[0]) {
		const struct cell_backend *const *b = c->chain;
		while (b[1])
			b++;
		(void)snprintf(err->backend, sizeof err->backend, "%s", b[0]->name);
	}
	return r;
}

int cell_place_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err)
{
	return named(c, c->chain[0]->create(c, spec, err), err);
}

int cell_place_destroy(struct cell *c, struct cell_error *err)
{
	if (!c->chain[0])
		return cell_guest_stop(c, err);
	return named(c, c->chain[0]->destroy(c, err), err);
}

bool cell_place_is_alive(struct cell *c)
{
	if (!c->chain[0] || !c->chain[0]->is_alive)
		return cell_guest_is_alive(c);
	return c->chain[0]->is_alive(c);
}

bool cell_is_paused(const struct cell *c)
{
	return json_is_true(json_object_get(c->record, "paused"));
}

int cell_place_pause(struct cell *c, bool is_on, struct cell_error *err)
{
	const struct cell_backend *b = c->chain[0];

	return named(c, b && b->pause ? b->pause(c, is_on, err) : cell_next_pause(c, is_on, err),
		err);
}

int cell_place_snapshot(struct cell *c, const char *id, unsigned *ret_apart, struct cell_error *err)
{
	const struct cell_backend *b = c->chain[0];

	return named(c,
		b && b->snapshot ? b->snapshot(c, id, ret_apart, err)
				 : cell_next_snapshot(c, id, ret_apart, err),
		err);
}

int cell_place_forget(struct cell *c, const char *id, struct cell_error *err)
{
	const struct cell_backend *b = c->chain[0];

	return named(c, b && b->forget ? b->forget(c, id, err) : cell_next_forget(c, id, err), err);
}

int cell_place_stats(struct cell *c, struct cell_stats *ret, struct cell_error *err)
{
	const struct cell_backend *b = c->chain[0];
	int r = b && b->stats ? b->stats(c, ret, err) : cell_next_stats(c, ret, err);

	return r == -ENOTSUP ? r : named(c, r, err);
}

void cell_place_detach(struct cell *c)
{
	link_free(steal_ptr(c->link));
	if (c->chain[0] && c->chain[0]->detach)
		c->chain[0]->detach(c);
}

int cell_place_connect(struct cell *c, struct cell_error *err)
{
	int fd = named(c, c->chain[0]->open_guest(c, err), err);

	if (fd < 0)
		return fd;
	/* who has an ephemeral cell uses it at once: its first call waits for the hello instead */
	int timeout_ms = c->is_ephemeral ? 0 : CELL_CONNECT_TIMEOUT_MS;
	return named(c, link_open(fd, timeout_ms, &c->link, err), err);
}
