/* SPDX-License-Identifier: Apache-2.0 */
/* flow_text.c: see flow_text.h. */
#include "server/flow_text.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "server/exec.h"

static json_t *replaced(const uint8_t *p, size_t n)
{
	auto_buf struct buf b = BUF_INIT(3 * n + 1);

	while (n) {
		int len = utf8_next(p, n);
		size_t taken = len > 0 ? (size_t)len : 1;
		(void)buf_add(&b, len > 0 ? (const char *)p : "\xef\xbf\xbd", len > 0 ? taken : 3);
		p += taken;
		n -= taken;
	}
	return json_stringn_nocheck(buf_str(&b), b.len);
}

static json_t *base64(const uint8_t *p, size_t n)
{
	auto_free unsigned char *text = malloc((n + 2) / 3 * 4 + 1);

	if (!text)
		return json_null();
	int len = EVP_EncodeBlock(text, p, (int)n);
	return json_stringn_nocheck((char *)text, (size_t)len);
}

void flow_put_text(json_t *o, const char *name, const uint8_t *p, size_t n)
{
	char key[64];

	if (!n) {
		(void)json_object_set_new(o, name, json_string(""));
		return;
	}
	if (utf8_is_valid(p, n)) {
		(void)json_object_set_new(o, name, json_stringn_nocheck((const char *)p, n));
		return;
	}
	(void)json_object_set_new(o, name, replaced(p, n));
	(void)snprintf(key, sizeof key, "%s_base64", name);
	(void)json_object_set_new(o, key, base64(p, n));
}

json_t *flow_event_json(struct exec *e, const struct spool_event *ev, const char **ret_type)
{
	json_t *o = json_object();

	switch (ev->kind) {
	case SPOOL_OUT:
	case SPOOL_ERR:
		*ret_type = ev->kind == SPOOL_OUT ? "stdout" : "stderr";
		(void)json_object_set_new(o, "type", json_string(*ret_type));
		(void)json_object_set_new(o, "offset", json_integer((json_int_t)ev->offset));
		flow_put_text(o, "data", ev->data, ev->len);
		break;
	case SPOOL_GAP:
		*ret_type = "gap";
		(void)json_object_set_new(o, "type", json_string("gap"));
		(void)json_object_set_new(o, "stream",
			json_string(ev->stream == 1 ? "stdout" : "stderr"));
		(void)json_object_set_new(o, "offset", json_integer((json_int_t)ev->offset));
		break;
	case SPOOL_END:
	case SPOOL_NONE:
		*ret_type = "exit";
		if (e->end)
			(void)json_object_update(o, e->end);
		(void)json_object_set_new(o, "type", json_string("exit"));
		break;
	}
	return o;
}

enum cell_code flow_code(const char *name)
{
	for (int i = 1; name && i < CELL_CODE_COUNT; i++)
		if (!strcmp(cell_code_name((enum cell_code)i), name))
			return (enum cell_code)i;
	return CELL_EINTERNAL;
}
