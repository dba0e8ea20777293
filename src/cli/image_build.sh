#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The root file system of an image, from Debian packages, as a tar whose bytes depend on the packages alone. Run by
# `cell image build` in a mount and pid namespace of its own, so that nothing of it outlives it.
#
#	WORK    an empty directory      SUITE   bookworm        MIRROR  the archive; empty: this machine's own
#	PACKAGES  separated by commas   OUT     the tar to write
set -eu
export LC_ALL=C DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
root=$WORK/root

own_mirror() {
	for file in /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list /etc/apt/sources.list; do
		[ -r "$file" ] || continue
		case $file in
		*.sources) sed -n 's/^URIs:[[:space:]]*\([^[:space:]]*\).*/\1/p' "$file" ;;
		*) sed -n 's/^deb[[:space:]]\{1,\}\(\[[^]]*\][[:space:]]*\)\{0,1\}\([^[:space:]]*\).*/\2/p' "$file" ;;
		esac
	done | grep -m 1 '/debian/*$'
}

mount --make-rprivate /
[ -n "$MIRROR" ] || MIRROR=$(own_mirror) || { echo "this machine's apt has no Debian archive: name one with --mirror" >&2; exit 3; }
debootstrap --variant=minbase ${PACKAGES:+--include="$PACKAGES"} "$SUITE" "$root" "$MIRROR"

# What differs from one build to the next, or is of no use inside a cell. The date of the archive stands for every
# time of the build; files of packages keep their own, which are older, so compiled Python stays valid.
date=$(sed -n 's/^Date: //p' "$root"/var/lib/apt/lists/*Release 2>/dev/null | head -n 1)
epoch=$(date -u -d "${date:-1970-01-01}" +%s)
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/var/cache/ldconfig/aux-cache "$root"/var/cache/debconf/*-old \
	"$root"/var/log/* "$root"/var/lib/dpkg/*-old "$root"/etc/*- "$root"/tmp/* "$root"/run/* "$root"/etc/apt/sources.list
rm -rf "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/info/* "$root"/usr/share/lintian "$root"/usr/share/locale/*
: >"$root/etc/machine-id"
: >"$root/etc/resolv.conf"
echo cell >"$root/etc/hostname"
# passwords of a system nobody logs in to change with the day they were made
sed -i -E 's/^([^:]*:[^:]*:)[0-9]*:/\11:/' "$root/etc/shadow"
umount "$root/proc" 2>/dev/null || true
tar --create --file="$OUT" --directory="$root" --sort=name --format=posix --numeric-owner --one-file-system \
	--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime --clamp-mtime --mtime="@$epoch" .
echo "$epoch" >"$WORK/epoch"
