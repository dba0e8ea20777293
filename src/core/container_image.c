/* SPDX-License-Identifier: Apache-2.0 */
#include "core/container_image.h"

#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "core/container.h"
#include "core/image/digest.h"

static int find_saved(const struct container_images *of, const char *id, struct cell_error *err)
{
	char saved[CONTAINER_SNAPSHOT_SIZE];

	container_snapshot(id, saved);
	int r = of->find(of->user, saved, err);
	if (r != -ENOENT)
		return r;
	r = cell_fail(err, CELL_ENOTFOUND, 0, "%s has no image '%s' of the snapshot", of->owner,
		saved);
	return cell_error_hint(err, r,
		"it was saved with another engine, or its image was removed there");
}

int container_image_missing(const struct container_images *of, const char *name,
	struct cell_error *err)
{
	int r = cell_fail(err, CELL_ENOTFOUND, 0, "%s has no image '%.200s'", of->owner, name);

	return cell_error_hint(err, r, "%s", of->fix);
}

int container_image(const struct cell_spec *spec, const struct container_images *of,
	struct cell_error *err)
{
	const char *image = spec->image;
	int r = -ENOENT;

	if (spec->from)
		return find_saved(of, spec->from, err);
	if (!image || !*image) {
		r = cell_fail(err, CELL_EINVAL, 0, "back end '%s' needs an image", of->backend);
		return cell_error_hint(err, r, "name one: --image NAME, or image: in cell.yaml");
	}
	if (spec->pull != CELL_PULL_ALWAYS || digest_parse(image)) /* no registry has a newer one */
		r = of->find(of->user, image, err);
	if (r != -ENOENT)
		return r;
	if (spec->pull == CELL_PULL_NEVER)
		return container_image_missing(of, image, err);
	r = of->pull(of->user, spec, err);
	if (r != 0)
		return r < 0 ? r : 0;
	r = of->find(of->user, image, err);
	return r == -ENOENT ? cell_fail(err, CELL_ENOTFOUND, 0,
				      "image '%.200s' was pulled and is not there", image)
			    : r;
}
