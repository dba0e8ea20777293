/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/kernel_channel.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *name;
	enum channel_word word;
	uint32_t max;
} words[] = {
	{"ready", CHANNEL_READY, CHANNEL_MAX_SMALL},
	{"display", CHANNEL_DISPLAY, CHANNEL_MAX_EVENT},
	{"result", CHANNEL_RESULT, CHANNEL_MAX_EVENT},
	{"error", CHANNEL_ERROR, CHANNEL_MAX_EVENT},
	{"clear", CHANNEL_CLEAR, CHANNEL_MAX_EVENT},
	{"input", CHANNEL_INPUT, CHANNEL_MAX_EVENT},
	{"answer", CHANNEL_ANSWER, CHANNEL_MAX_EVENT},
	{"mark", CHANNEL_MARK, 0},
	{"done", CHANNEL_DONE, CHANNEL_MAX_SMALL},
};

static const struct {
	const char *name;
	enum channel_status status;
} statuses[] = {{"ok", CHANNEL_OK}, {"error", CHANNEL_FAILED}, {"exit", CHANNEL_EXIT}};

static int fail(struct channel *c, const char *why)
{
	c->why = why;
	return -EPROTO;
}

/* The next word of the line, up to a space or the end. */
static size_t word_len(const char *p, const char *end)
{
	const char *space = memchr(p, ' ', (size_t)(end - p));

	return (size_t)((space ? space : end) - p);
}

static bool is_word(const char *p, size_t n, const char *word)
{
	return n == strlen(word) && memcmp(p, word, n) == 0;
}

static int take_length(struct channel *c, const char *p, const char *end, uint32_t max)
{
	uint64_t v = 0;

	if (p == end || end - p > 9)
		return fail(c, "a length that is no number of 1 to 9 digits");
	for (; p < end; p++) {
		if (*p < '0' || *p > '9')
			return fail(c, "a length that is no number of 1 to 9 digits");
		v = v * 10 + (uint64_t)(*p - '0');
	}
	if (v > max)
		return fail(c, "a payload that is too long");
	c->len = c->left = v;
	return 1;
}

static int take_status(struct channel *c, const char **p, const char *end)
{
	size_t n = word_len(*p, end);

	for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
		if (!is_word(*p, n, statuses[i].name))
			continue;
		c->status = statuses[i].status;
		*p += n;
		if (*p == end)
			return fail(c, "a message without a length");
		++*p;
		return 0;
	}
	return fail(c, "an unknown status");
}

static int take_line(struct channel *c)
{
	const char *p = c->head, *end = c->head + c->n;
	size_t n = word_len(p, end), i = 0;

	while (i < sizeof words / sizeof *words && !is_word(p, n, words[i].name))
		i++;
	if (i == sizeof words / sizeof *words)
		return fail(c, "an unknown word");
	p += n;
	if (p == end)
		return fail(c, "a message without a length");
	p++;
	if (words[i].word == CHANNEL_DONE && take_status(c, &p, end) < 0)
		return -EPROTO;
	int r = take_length(c, p, end, words[i].max);
	if (r > 0)
		c->word = words[i].word;
	return r;
}

int channel_head(struct channel *c, const uint8_t *p, size_t n, size_t *ret_used)
{
	const uint8_t *eol = memchr(p, '\n', n);
	size_t take = eol ? (size_t)(eol - p) : n;

	*ret_used = 0;
	if (take > sizeof c->head - c->n)
		return fail(c, "a line that is too long");
	memcpy(c->head + c->n, p, take);
	c->n += take;
	*ret_used = take + (eol ? 1 : 0);
	return eol ? take_line(c) : 0;
}

void channel_took(struct channel *c, size_t n)
{
	c->left -= n;
}

void channel_next(struct channel *c)
{
	c->word = 0;
	c->status = 0;
	c->n = 0;
	c->len = c->left = 0;
}
