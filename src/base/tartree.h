/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tartree.h: a directory as a tar stream. Regular files, directories and symbolic links (as links,
 * whatever they point to) go in; fifos, sockets and devices are passed over. Names are relative to
 * the directory, which itself is no entry. A file that shrinks meanwhile is filled up with zeros,
 * one that vanishes is passed over. libc only.
 */
#pragma once
#include "base/error.h"
#include "base/tar.h"

/* dir_fd (O_PATH will do) is borrowed; `what` names it in errors. The end mark is written. data_fd:
 * where w's bytes end up when that is a file descriptor file data may be spliced into, else -1. A
 * negative return of w's own function is returned with err set. */
int tartree_write(int dir_fd, const char *what, struct tar_writer *w, int data_fd,
	struct cell_error *err);
