/* SPDX-License-Identifier: Apache-2.0 */
/* flow_text.h: bytes of a command as JSON. Output is bytes; JSON wants text: what is no UTF-8 goes as base64 as well. */
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "cell/error.h"

struct exec;
struct spool_event;

/* o[name] is the text, bytes that are none replaced; with o[name_base64] the exact bytes when some were. */
void flow_put_text(json_t *o, const char *name, const uint8_t *p, size_t n);
/* {"type":"stdout","offset":..,"data":..}, ...; a new reference. */
json_t *flow_event_json(struct exec *e, const struct spool_event *ev, const char **ret_type);
/* From its word. */
enum cell_code flow_code(const char *name);
