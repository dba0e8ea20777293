/* SPDX-License-Identifier: Apache-2.0 */
/* cells_local.c: the cells of this machine: libcell itself. */
#include <stddef.h>

#include "cli/cells.h"

static int backends(struct cell_backend_info *ret, size_t max, size_t *ret_n,
	struct cell_error *err)
{
	(void)err;
	*ret_n = cell_backends_probe(ret, max);
	return 0;
}

const struct cells cells_local = {
	.open = cell_open,
	.reopen = cell_reopen,
	.close = cell_close,
	.destroy = cell_destroy,
	.remove = cell_remove,
	.name = cell_name,
	.backend_of = cell_backend_of,
	.supports = cell_supports,
	.degraded = cell_degraded,
	.poll_fd = cell_poll_fd,
	.poll_events = cell_poll_events,
	.list = cell_list,
	.inspect = cell_inspect,
	.prune = cell_prune,
	.platform = cell_platform,
	.tools = cell_tools,
	.backends = backends,
	.backend_probe = cell_backend_probe,
	.exec_start = cell_exec_start,
	.exec_attach = cell_exec_attach,
	.exec_next = cell_exec_next,
	.exec_patience_ms = cell_exec_patience_ms,
	.exec_write = cell_exec_write,
	.exec_close_stdin = cell_exec_close_stdin,
	.exec_resize = cell_exec_resize,
	.exec_signal = cell_exec_signal,
	.exec_kill = cell_exec_kill,
	.exec_id = cell_exec_id,
	.exec_free = cell_exec_free,
	.signal = cell_signal,
	.ps = cell_ps,
	.code_start = cell_code_start,
	.code_look = cell_code_look,
	.code_next = cell_code_next,
	.code_answer = cell_code_answer,
	.code_interrupt = cell_code_interrupt,
	.code_id = cell_code_id,
	.code_free = cell_code_free,
	.context_create = cell_context_create,
	.context_list = cell_context_list,
	.context_reset = cell_context_reset,
	.context_interrupt = cell_context_interrupt,
	.context_delete = cell_context_delete,
	.context_vars = cell_context_vars,
	.context_get = cell_context_get,
	.context_set = cell_context_set,
	.context_complete = cell_context_complete,
	.file_stat = cell_file_stat,
	.file_exists = cell_file_exists,
	.file_read = cell_file_read,
	.file_write = cell_file_write,
	.file_mkdir = cell_file_mkdir,
	.file_remove = cell_file_remove,
	.file_move = cell_file_move,
	.file_list = cell_file_list,
	.file_glob = cell_file_glob,
	.file_grep = cell_file_grep,
	.file_edit = cell_file_edit,
	.file_tar = cell_file_tar,
	.file_untar = cell_file_untar,
	.file_upload = cell_file_upload,
	.file_download = cell_file_download,
	.file_watch = cell_file_watch,
	.deps_add = cell_deps_add,
	.deps_sync = cell_deps_sync,
	.deps_remove = cell_deps_remove,
	.deps_list = cell_deps_list,
	.deps_lock = cell_deps_lock,
};

const struct cells *cells = &cells_local;
