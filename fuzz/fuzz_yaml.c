/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_yaml.c: any bytes as a configuration: load, spec, dump, load the dump. Whatever loads must
 * dump, and its dump must load and dump to the same text.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *dump(struct cell_config *cfg, enum cell_config_format format, bool with_origin)
{
	char *text = NULL;

	if (cell_config_dump(cfg, format, with_origin, &text, NULL) < 0)
		abort();
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cell_config *cfg = NULL, *again = NULL;
	const struct cell_spec *spec;
	struct cell_error err = {0};

	if (cell_config_load_text("fuzz.yaml", (const char *)data, size, &cfg, &err) < 0) {
		if (err.code == CELL_OK || !err.msg[0])
			abort();
		return 0;
	}
	(void)cell_config_spec(cfg, &spec, &err);
	free(dump(cfg, CELL_CONFIG_JSON, false));
	free(dump(cfg, CELL_CONFIG_JSON, true));
	free(dump(cfg, CELL_CONFIG_YAML, true));
	char *first = dump(cfg, CELL_CONFIG_YAML, false);
	if (cell_config_load_text("dump.yaml", first, strlen(first), &again, NULL) < 0)
		abort();
	char *second = dump(again, CELL_CONFIG_YAML, false);
	if (strcmp(first, second) != 0)
		abort();
	free(first);
	free(second);
	cell_config_free(again);
	cell_config_free(cfg);
	return 0;
}
