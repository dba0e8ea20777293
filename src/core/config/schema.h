/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema.h: every key the configuration knows, as data. keys.c holds the keys and their other
 * spellings, backend_rules.c the names of back ends and what each allows; the code that reads,
 * checks, dumps and documents configuration takes all it knows from there.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/config/node.h"

enum key_type {
	KEY_STRING,
	KEY_PATH, /* of the host; relative to the file it stands in */
	KEY_BOOL,
	KEY_INT,
	KEY_BYTES,
	KEY_DURATION, /* number: milliseconds */
	KEY_CPUS,     /* number: thousandths */
	KEY_ENUM,     /* number: place in the list + base */
	KEY_BACKEND,
	KEY_STRINGS,
	KEY_ENUMS,
	KEY_PAIRS, /* mapping, or list of K=V */
	KEY_MOUNTS,
	KEY_PRICE,   /* number: billionths */
	KEY_RECORDS, /* list of mappings with `fields` */
	KEY_TABLE,   /* mapping of names to mappings with `fields` */
	KEY_TYPE_COUNT
};

/* What a text must look like. */
enum text_form {
	TEXT_ANY,
	TEXT_CELL_NAME,
	TEXT_LABEL,	  /* a DNS label */
	TEXT_DOMAIN,	  /* example.org, *.example.org, example.org:443 */
	TEXT_REPO,	  /* owner/name or a URL */
	TEXT_DESTINATION, /* 10.1.2.0/24, 10.1.2.3:5432, [fd00::1]:443 */
	TEXT_ADDRESS,	  /* 10.1.2.3, fd00::1 */
	TEXT_PATH,	  /* of the host, relative to the file it stands in */
	TEXT_PATH_OR_URL, /* http://, https://, or such a path */
};

/* Where a value goes in struct cell_spec. */
enum spec_kind {
	SPEC_NONE, /* stays in the configuration */
	SPEC_STRING,
	SPEC_U64,
	SPEC_U32,
	SPEC_SECONDS, /* uint32_t, from milliseconds, rounded up */
	SPEC_BOOL,
	SPEC_SWITCH,  /* uint32_t: 0 not said, 1 false, 2 true */
	SPEC_TIMEOUT, /* uint64_t: 0 not said, CELL_NO_TIMEOUT none */
	SPEC_ENUM,
	SPEC_LIST,
	SPEC_PAIRS,
	SPEC_MOUNTS,
};

struct config_key {
	const char *path; /* canonical: "limits.memory" */
	enum key_type type;
	const char *values; /* enums: "none=off|open", the first spelling of each is canonical;
			       paths: words that are none */
	int base;	    /* enums: the number of the first */
	enum text_form form;
	const char *prefix;   /* each text begins with it */
	uint64_t min, max;    /* in the type's base unit; max 0: none */
	const char *backends; /* space-separated: only these take it; NULL: all */
	const char *unserved; /* what this build lacks to honour it; NULL: it is honoured */
	bool is_secret;
	bool is_vendor_unit; /* a plain number is in the back end's own unit */
	enum spec_kind to;
	size_t offset;
	const struct config_key *fields; /* of a record; ends with a NULL path */
	const char *doc;		 /* one line */
};

#define CONFIG_KEYS_MAX 192
extern const struct config_key config_keys[];
extern const size_t config_keys_count;

enum alias_how {
	ALIAS_SAME,
	ALIAS_VENDOR_UNIT, /* a plain number is in the back end's own unit */
	ALIAS_SWITCH,	   /* false and true stand for the two words of `values` */
	ALIAS_CPU_QUOTA,   /* from 1000 up: microseconds of CPU per 100 ms, as in Docker */
};

struct config_alias {
	const char *spelling;
	const char *path;
	enum alias_how how;
	const char *values;
};
extern const struct config_alias config_aliases[]; /* ends with a NULL spelling */

/* What one type is called in messages and in the documentation. */
struct key_type_info {
	const char *noun;
	const char *example;
};
extern const struct key_type_info key_types[KEY_TYPE_COUNT];

/* The index of a canonical path, -1 if there is none. */
int schema_index(const char *path);
/* Find a key by any spelling; whatever may stand at the top may stand in `sandbox` too. -1 if
 * unknown; *ret_alias is NULL for the canonical spelling. */
int schema_find(const char *spelling, const struct config_alias **ret_alias);
/* Do keys begin with "path."? */
bool schema_is_section(const char *path);
/* The nearest known key, as the full path; NULL when nothing is near. Static or in buf. */
#define SCHEMA_PATH_MAX 160
const char *schema_nearest(const char *spelling, char buf[SCHEMA_PATH_MAX]);
/* The variable that sets a key: "limits.memory" is CELL_LIMITS_MEMORY. */
const char *schema_variable(const char *path, char buf[SCHEMA_PATH_MAX]);

/* The place of a word in "a=b|c", any spelling and case, - as _; -1 if not there. */
int enum_find(const char *values, const char *word);
/* The canonical word at a place, in buf. */
const char *enum_word(const char *values, int place, char buf[QUOTE_MAX]);
/* The nearest canonical word; NULL if none is near. */
const char *enum_nearest(const char *values, const char *word, char buf[QUOTE_MAX]);

bool is_in_words(const char *words, const char *word); /* space-separated */

/* The canonical name of a back end by any of its names: "aws_ecs" is "ecs_fargate". NULL if
 * unknown. */
const char *backend_canonical(const char *name);
const char *backend_nearest(const char *name);
bool backend_is_wrapper(const char *name);
bool backend_is_built(const char *name);
struct backend_name {
	const char *name;
	const char *aliases; /* space-separated */
};
extern const struct backend_name backend_names[]; /* ends with a NULL name */

/* What one back end makes of a key. */
struct backend_rule {
	const char *backend;
	const char *path;
	uint64_t bare_unit; /* a vendor's plain number is multiplied by it; 0: none */
	uint64_t bare_per;  /* and divided by it */
	uint64_t min, max;
	const char *why;
};
/* NULL if the back end says nothing about it. Keys of sandbox.primary and .secondary included. */
const struct backend_rule *backend_rule(const char *backend, const char *path);
