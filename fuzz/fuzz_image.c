/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_image.c: an image from somebody else. The first byte says what the rest is: one of the JSON
 * documents, or a layer, compressed or not, which is unpacked into a directory that has a canary
 * beside it and links to it inside.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "core/image/layer.h"
#include "core/image/oci.h"
#include "core/image/stream.h"
#include "core/remove_tree.h"

#define MUST(e)                  \
	do {                     \
		if (!(e))        \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_config(const char *text, size_t len, bool is_record)
{
	struct oci_config c = {0}, again = {0};
	struct cell_error err = {0};
	char *written = NULL;

	int r = is_record ? image_record_parse(text, len, &c, &err)
			  : oci_config_parse(text, len, &c, &err);
	MUST((r < 0) == (err.code != CELL_OK));
	if (r < 0)
		return;
	MUST(image_record_write(&c, &written, NULL) == 0);
	MUST(image_record_parse(written, strlen(written), &again, NULL) == 0);
	MUST(again.n_layers == c.n_layers && !again.cwd == !c.cwd && !again.env == !c.env);
	free(written);
	oci_config_done(&c);
	oci_config_done(&again);
}

static void read_json(uint8_t kind, const char *text, size_t len)
{
	struct docker_manifest d = {0};
	struct oci_manifest m = {0};
	struct oci_blob b;
	bool is_index;

	switch (kind) {
	case 'i':
		if (oci_index_parse(text, len, &b, &is_index, NULL) == 0)
			MUST(digest_is_hex(b.hex));
		return;
	case 'm':
		if (oci_manifest_parse(text, len, &m, NULL) == 0)
			oci_manifest_done(&m);
		return;
	case 'd':
		if (docker_manifest_parse(text, len, &d, NULL) == 0)
			docker_manifest_done(&d);
		return;
	default:
		read_config(text, len, kind == 'r');
	}
}

static void check_canary(int dir_fd)
{
	struct stat st;

	MUST(fstatat(dir_fd, "canary", &st, 0) == 0 && st.st_size == 0 && st.st_nlink == 1);
	MUST((st.st_mode & 07777) == 0640);
	MUST(fstatat(dir_fd, "prey", &st, 0) == 0 && st.st_nlink == 2 &&
		(st.st_mode & 07777) == 0710);
}

static void unpack(const uint8_t *data, size_t size, int fs_fd)
{
	const struct layer_limits limits = {.max_bytes = 1 << 20, .max_entries = 1000};
	char packed[DIGEST_HEX + 1], plain[DIGEST_HEX + 1];
	struct layer_result res;
	struct stream *s = NULL;
	auto_fd int fd = memfd_create("layer", MFD_CLOEXEC);

	MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
	if (stream_open(&s, fd, 8 << 20, NULL) < 0)
		return;
	struct tar_reader tar = TAR_READER_INIT(stream_read, s);
	(void)layer_unpack(&tar, fs_fd, &limits, &res, NULL);
	MUST(res.bytes <= limits.max_bytes);
	(void)stream_finish(s, packed, plain, NULL);
	tar_reader_done(&tar);
	stream_free(s);
}

static void read_layer(const uint8_t *data, size_t size)
{
	char path[] = "/tmp/cell-fuzz-XXXXXX";

	auto_fd int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

	MUST(tmp >= 0 && mkdtemp(path));
	auto_fd int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(dir >= 0 && mkdirat(dir, "fs", 0755) == 0 && mkdirat(dir, "prey", 0710) == 0);
	auto_fd int canary = openat(dir, "canary", O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
	MUST(canary >= 0 && fchmod(canary, 0640) == 0);
	auto_fd int fs = openat(dir, "fs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(fs >= 0 && symlinkat("../prey", fs, "d") == 0 && symlinkat("../canary", fs, "f") == 0);
	unpack(data, size, fs);
	check_canary(dir);
	MUST(cell_remove_tree(tmp, path + strlen("/tmp/"), NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] == 'l')
		read_layer(data + 1, size - 1);
	else
		read_json(data[0], (const char *)data + 1, size - 1);
	return 0;
}
