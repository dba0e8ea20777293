/* SPDX-License-Identifier: Apache-2.0 */
/* slot.c: see slot.h. */
#include "backends/jail/slot.h"

#include "backends/jail/client.h"
#include "base/error.h"
#include "core/guest_process.h"

int jail_slot_ask(struct cell *c, enum launcher_op op, struct cell_error *err)
{
	int64_t slot = cell_note_int(c, "jail_slot", -1);
	bool has_slot = slot >= 0 && slot < LAUNCHER_MAX_SLOTS;
	char title[160] = "";
	struct launcher_request rq = LAUNCHER_REQUEST_INIT((uint16_t)op);

	/* held by the request itself: when we are killed, nobody resumes what is yet to be paused */
	if (launcher_is_about_motion((uint16_t)op))
		rq.hold_fd = cell_lock_fd(c);
	if (!has_slot && op != LAUNCHER_REMOVE)
		return cell_fail(err, CELL_EGONE, 0, "the cell has no slot");
	if (has_slot) {
		int r = cell_guest_title(c, title, err);
		if (r < 0)
			return r;
		rq.head.slot = (uint32_t)slot;
		rq.texts[LAUNCHER_TEXT_TITLE] = title;
	} else {
		rq.head.op = LAUNCHER_PRUNE;
	}
	return jail_client_send(&rq, err);
}
