#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Real programs under the system call filters: the filter must not be what breaks them. Prints TAP.
#
#	realwork.sh PATH_OF_under_filter PROFILE DIRECTORY_OF_TASKS
#
# Each task runs without the filter first: where that fails too, or the tool is missing, it is skipped
# and says why. Nothing is fetched from anywhere.
set -u
under=$(realpath "$1") profile=$2 tasks=$(realpath "$3")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
n=0 bad=0
export HOME="$work/home" npm_config_offline=true GOFLAGS=-mod=mod GOTOOLCHAIN=local GO111MODULE=on GOPROXY=off \
	PIP_DISABLE_PIP_VERSION_CHECK=1 CARGO_NET_OFFLINE=true GIT_CONFIG_NOSYSTEM=1
# Where the toolchains of this machine are kept, since HOME is another one now.
user_home=$(getent passwd "$(id -u)" | cut -d: -f6)
for pair in CARGO_HOME=.cargo RUSTUP_HOME=.rustup PYENV_ROOT=.pyenv; do
	name=${pair%%=*}
	eval "set_already=\${$name:-}"
	[ -n "$set_already" ] || [ ! -d "$user_home/${pair#*=}" ] || export "$name=$user_home/${pair#*=}"
done
mkdir -p "$HOME"

# Without this everything below would be skipped, or prove nothing.
n=1
if [ "$("$under" none sed -n 's/^Seccomp:.//p' /proc/self/status)" != 2 ] &&
	[ "$("$under" "$profile" sed -n 's/^Seccomp:.//p' /proc/self/status)" = 2 ]; then
	echo "ok $n - the $profile filter is on when it should be"
else
	echo "not ok $n - the $profile filter is on when it should be"
	bad=1
fi

# One file of ../programs/tasks: its first lines say what it shows, what it needs and where it does not run.
task() {
	title=$(sed -n '1s/^# //p' "$1") missing=
	if grep -qx "# not: $profile" "$1"; then
		return
	fi
	n=$((n + 1))
	for tool in $(sed -n 's/^# needs: //p' "$1"); do command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"; done
	if [ -n "$missing" ]; then
		echo "ok $n - $title # SKIP not installed:$missing"
	elif ! once none "$1"; then
		echo "ok $n - $title # SKIP fails without the filter too: $(tail -n 1 "$work/log" | tr -d '#' | cut -c 1-120)"
	elif once "$profile" "$1"; then
		echo "ok $n - $title, under the $profile filter"
	else
		echo "not ok $n - $title, under the $profile filter"
		sed 's/^/# /' "$work/log" | tail -n 30
		bad=1
	fi
}

once() {
	rm -rf "$work/dir"
	mkdir "$work/dir"
	(cd "$work/dir" && timeout 300 "$under" "$1" sh -eu "$2" >"$work/log" 2>&1 </dev/null)
}

for file in "$tasks"/*.sh; do task "$file"; done
echo "1..$n"
exit $bad
