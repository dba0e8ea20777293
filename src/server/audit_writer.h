/* SPDX-License-Identifier: Apache-2.0 */
/* audit_writer.h: the writer's state, shared by audit.c and audit_open.c; nobody else includes
 * it. */
#pragma once
#include <pthread.h>

#include "base/cleanup.h"
#include "server/audit_file.h"
#include "server/audit_record.h"

struct audit {
	struct audit_settings settings; /* its paths are not kept */
	char *dir;			/* for messages */
	pthread_mutex_t lock;
	int dir_fd, lock_fd, head_fd;
	int fd; /* the file being written; -1: the next record begins one */
	uint64_t size;
	uint64_t file_first;
	int64_t file_began_ns;
	uint64_t seq; /* of the last record */
	char hash[AUDIT_HASH_TEXT];
	char boot[AUDIT_BOOT_MAX];
	uint8_t key[AUDIT_KEY_BYTES];
	bool is_dirty; /* something is not synced */
	bool is_torn;  /* behind `size` stands the beginning of a record */
};

/* With the lock held. */
int audit_put(struct audit *a, const struct audit_event *event, uint64_t seq,
	struct cell_error *err);
int audit_write_head(struct audit *a, struct cell_error *err);
int audit_new_file(struct audit *a, struct cell_error *err);
