# SPDX-License-Identifier: Apache-2.0
# shell.sh: the driver of a shell kernel, for bash 4.4 and later. It is given to bash as text at fd 4 and talks to the guest on
# fd 3 (docs/languages.md says what comes of it).
#
# The user's code must run where a typed command would: not in a function, a loop or a subshell. And an interrupt, `set -u`
# or `set -e` must end the code, not the shell. An interactive bash does all of that by itself, so this is one, without a
# terminal, without job control, that reads its commands from a pipe to itself (fd 0). The command is always the same: take
# what the guest says. The code that comes is evaluated before the next prompt (PROMPT_COMMAND), where bash does not
# behave as if somebody watched. Some commands are always in the pipe, so whatever ends one, the next follows.
#
# A run as such starts no process. Names of ours begin with __cell.

if [[ -z ${__CELL_STAGE-} ]]; then
	exec 253<&3 3<&- 254<&4 4<&-
	exec 252>&2 0<> <(:)
	builtin printf '. /dev/fd/254\n' >&0
	__CELL_STAGE=2 HISTFILE=/dev/null exec "$BASH" --norc --noprofile --noediting -i +m 2>/dev/null
fi

exec 2>&252 10<&- 252>&- 254<&- 251<> <(:)
unset __CELL_STAGE HISTFILE PROMPT_COMMAND PS0 TMOUT MAILCHECK MAIL MAILPATH
PS1= PS2=
builtin history -c
set +o history +H +m -E
shopt -u checkwinsize
[[ ${OLDPWD+x} ]] || unset OLDPWD

# On one line: it must have been read before the code can spoil how the rest is read.
__cell_prompt='\builtin eval "$__cell_text" 0</dev/null 253>&- 251>&-; { __cell_was=$? __cell_now=$-; set +evxu; } 2>/dev/null'
__cell_text= __cell_was= __cell_now= __cell_is_running= __cell_status=0 __cell_flags= __cell_ended= __cell_stderr= __cell_int= __cell_err=
__cell_fd=253

# ---- the control channel ----

__cell_send() { # head payload
	local LC_ALL=C
	builtin printf '%s %d\n%s' "$1" "${#2}" "$2" >&"$__cell_fd"
}

# A message: __cell_words and __cell_payload. NUL bytes, which bash cannot hold, are left out.
__cell_take() {
	local LC_ALL=C IFS=' ' left some
	IFS=' ' builtin read -r -u "$__cell_fd" -a __cell_words || builtin exit 0 2>/dev/null
	left=${__cell_words[${#__cell_words[@]}-1]} __cell_payload=
	while ((left > 0)); do
		IFS= builtin read -r -d '' -n "$left" -u "$__cell_fd" some || [[ $some ]] || builtin exit 0 2>/dev/null
		__cell_payload+=$some
		((${#some} < left)) && left=$((left - ${#some} - 1)) || left=0
	done
}

# Inside the user's code the channel is where bash has put it aside, closed for whatever is started.
__cell_find() {
	local f
	for f in 253 {10..99}; do
		[[ -S /dev/fd/$f ]] && __cell_fd=$f && return 0
	done
	return 1
}

# ---- JSON ----

__cell_utf8='^([ -~]|[[:cntrl:]]|['$'\xc2-\xdf''].|'$'\xe0['$'\xa0-\xbf''].|['$'\xe1-\xec\xee\xef''][^ -~].|'$'\xed['$'\x80-\x9f''].|'$'\xf0['$'\x90-\xbf''][^ -~].|['$'\xf1-\xf3''][^ -~][^ -~].|'$'\xf4['$'\x80-\x8f''][^ -~].)*$'

# $1 as a JSON string, in __cell_json.
__cell_quote() {
	local LC_ALL=C s=$1 i c code
	if [[ $s == *[$'\x80'-$'\xff']* && ! $s =~ $__cell_utf8 ]]; then
		s=${s//[$'\x80'-$'\xff']/$'\xef\xbf\xbd'}
	fi
	s=${s//\\/\\\\}
	s=${s//\"/\\\"}
	s=${s//$'\n'/\\n}
	s=${s//$'\t'/\\t}
	s=${s//$'\r'/\\r}
	if [[ $s == *[$'\x01'-$'\x1f'$'\x7f']* ]]; then
		for ((i = 1; i < 32; i++)); do
			builtin printf -v code '\\x%02x' "$i"
			builtin printf -v c "$code"
			builtin printf -v code '\\u%04x' "$i"
			s=${s//"$c"/"$code"}
		done
	fi
	__cell_json=\"$s\"
}

# The value at the beginning of __cell_rest: __cell_kind (string, number, word, array, object) and __cell_value; of arrays and
# objects the members are in __cell_members, in turn (key, value, key, ...).
__cell_parse_scalar() {
	local out= c
	if [[ $__cell_rest =~ ^[[:space:]]*(-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?) ]]; then
		__cell_kind=number __cell_value=${BASH_REMATCH[1]} __cell_rest=${__cell_rest:${#BASH_REMATCH[0]}}
	elif [[ $__cell_rest =~ ^[[:space:]]*(true|false|null) ]]; then
		__cell_kind=word __cell_value=${BASH_REMATCH[1]} __cell_rest=${__cell_rest:${#BASH_REMATCH[0]}}
		[[ $__cell_value != null ]] || __cell_value=
	elif [[ $__cell_rest =~ ^[[:space:]]*\" ]]; then
		__cell_kind=string __cell_rest=${__cell_rest:${#BASH_REMATCH[0]}}
		while :; do
			[[ $__cell_rest =~ ^[^\"\\]* ]]
			out+=${BASH_REMATCH[0]} __cell_rest=${__cell_rest:${#BASH_REMATCH[0]}}
			case $__cell_rest in
			\"*) __cell_rest=${__cell_rest:1} __cell_value=$out; return 0 ;;
			\\u*) __cell_unescape; out+=$__cell_value; continue ;;
			\\n*) out+=$'\n' ;;
			\\t*) out+=$'\t' ;;
			\\r*) out+=$'\r' ;;
			\\b*) out+=$'\b' ;;
			\\f*) out+=$'\f' ;;
			\\?*) out+=${__cell_rest:1:1} ;;
			*) return 1 ;;
			esac
			__cell_rest=${__cell_rest:2}
		done
	else
		return 1
	fi
}

# \uXXXX at the beginning of __cell_rest, as the bytes of UTF-8.
__cell_unescape() {
	local n=$((16#${__cell_rest:2:4})) low o
	__cell_rest=${__cell_rest:6}
	if ((n >= 0xd800 && n < 0xdc00)) && [[ $__cell_rest == \\u* ]]; then
		low=$((16#${__cell_rest:2:4}))
		n=$((0x10000 + ((n - 0xd800) << 10) + (low - 0xdc00)))
		__cell_rest=${__cell_rest:6}
	fi
	if ((n < 0x80)); then
		builtin printf -v o '\\x%02x' "$n"
	elif ((n < 0x800)); then
		builtin printf -v o '\\x%02x' $((0xc0 | n >> 6)) $((0x80 | n & 63))
	elif ((n < 0x10000)); then
		builtin printf -v o '\\x%02x' $((0xe0 | n >> 12)) $((0x80 | n >> 6 & 63)) $((0x80 | n & 63))
	else
		builtin printf -v o '\\x%02x' $((0xf0 | n >> 18)) $((0x80 | n >> 12 & 63)) $((0x80 | n >> 6 & 63)) $((0x80 | n & 63))
	fi
	builtin printf -v __cell_value "$o"
}

__cell_parse() {
	local LC_ALL=C close
	__cell_rest=$1 __cell_members=()
	if __cell_parse_scalar; then
		[[ $__cell_rest =~ ^[[:space:]]*$ ]]
		return
	fi
	[[ $__cell_rest =~ ^[[:space:]]*([\[{]) ]] || return 1
	[[ ${BASH_REMATCH[1]} == '[' ]] && close=']' __cell_kind=array || close='}' __cell_kind=object
	local kind=$__cell_kind
	__cell_rest=${__cell_rest:${#BASH_REMATCH[0]}}
	while :; do
		[[ $__cell_rest =~ ^[[:space:]]* ]]
		__cell_rest=${__cell_rest:${#BASH_REMATCH[0]}}
		[[ ${__cell_rest:0:1} == "$close" && ${#__cell_members[@]} == 0 ]] && break
		if [[ $kind == object ]]; then
			__cell_parse_scalar && [[ $__cell_rest =~ ^[[:space:]]*: ]] || return 1
			__cell_rest=${__cell_rest:${#BASH_REMATCH[0]}}
			__cell_members+=("$__cell_value")
		fi
		__cell_parse_scalar || return 1
		__cell_members+=("$__cell_value")
		[[ $__cell_rest =~ ^[[:space:]]* ]]
		__cell_rest=${__cell_rest:${#BASH_REMATCH[0]}}
		[[ ${__cell_rest:0:1} == "$close" ]] && break
		[[ ${__cell_rest:0:1} == , ]] || return 1
		__cell_rest=${__cell_rest:1}
	done
	__cell_kind=$kind __cell_rest=${__cell_rest:1}
	[[ $__cell_rest =~ ^[[:space:]]*$ ]]
}

# ---- runs ----

# What `trap -p $1` says, in __cell_trap: through a pipe, as nothing else lets bash keep it without a new process.
__cell_get_trap() {
	local fd=251 is_new=
	[[ -p /dev/fd/251 ]] || { exec {fd}<> <(:); is_new=1; } # in the user's code it is closed
	{ builtin trap -p "$1"; builtin printf '\0'; } >&"$fd"
	IFS= builtin read -r -d '' -u "$fd" __cell_trap
	[[ ! $is_new ]] || exec {fd}<&-
}

# Under `set -e` a command that fails ends the code, not the shell.
__cell_on_error() {
	local status=$?
	[[ $- == *e* && $BASHPID == "$$" && $__cell_is_running ]] || return $status
	__cell_ended=$status
	exec {__cell_stderr}>&2 2>/dev/null # bash ends the line when it is interrupted
	__cell_get_trap INT
	__cell_int=$__cell_trap
	builtin trap - INT
	builtin kill -INT $$
	builtin : # now bash notices
}

# bash takes no notice of an interrupt when the command that it waits for ends in another way; of a trap it does. From here
# it is interrupted once more, with no command to wait for.
__cell_on_interrupt() {
	exec {__cell_stderr}>&2 2>/dev/null # bash ends the line when it is interrupted
	__cell_int=
	builtin trap - INT
	builtin kill -INT $$
	builtin : # now bash notices
}

# The shell ends while code runs.
__cell_on_exit() {
	[[ $BASHPID == "$$" && $__cell_is_running ]] || return
	__cell_is_running=
	__cell_find && __cell_send 'done exit' "$1"
}

# The user's own trap comes first; then the guest is told.
exit() {
	local __cell_code=${1-$?} __cell_trap
	[[ $BASHPID == "$$" && $__cell_is_running ]] || builtin exit "$__cell_code"
	__cell_get_trap EXIT
	builtin eval "set -- $__cell_trap"
	[[ $3 == __cell_on_exit* ]] && set --
	builtin trap -- "${3-}"$'\n'"__cell_on_exit $__cell_code" EXIT
	builtin exit "$__cell_code"
}

# `read` from the run's own stdin asks the client. Only defined for runs that may.
__cell_read='read() {
	local __cell_prompt= __cell_secret=false __cell_i
	for ((__cell_i = 1; __cell_i <= $#; __cell_i++)); do
		case ${!__cell_i} in
		-u*) builtin read "$@"; return ;;
		-p) ((__cell_i++)); __cell_prompt=${!__cell_i} ;;
		-*p) ((__cell_i++)); __cell_prompt=${!__cell_i}; [[ ${!__cell_i} == -*s* ]] && __cell_secret=true ;;
		-*s*) __cell_secret=true ;;
		esac
	done
	if [[ $BASHPID != "$$" || ! /dev/fd/0 -ef /dev/null ]] || ! __cell_find; then
		builtin read "$@"
		return
	fi
	__cell_ask "$__cell_prompt" "$__cell_secret" || return 1
	builtin read "$@" <<<"$__cell_payload"
}'

__cell_ask() {
	local __cell_json
	__cell_quote "$1"
	__cell_send input "{\"prompt\": $__cell_json, \"password\": $2}"
	__cell_take
	[[ ${__cell_words[0]} == input ]]
}

# How a status is told: 128 and more are signals.
__cell_explain() {
	local name=
	if (($1 > 128 && $1 < 193)); then
		name=$(builtin kill -l $(($1 - 128)) 2>/dev/null) && name=" (SIG$name)"
	fi
	__cell_message="exit status $1$name"
}

__cell_error() { # name message traceback-line...
	local name=$1 message=$2 text= __cell_json
	shift 2
	while (($#)); do
		__cell_quote "$1"
		text+="${text:+, }$__cell_json"
		shift
	done
	__cell_quote "$message"
	__cell_send error "{\"name\": \"$name\", \"message\": $__cell_json, \"traceback\": [$text]}"
}

# Does bash refuse to read the code? Only asked when it failed.
__cell_has_fault() {
	[[ $__cell_status == [12] ]] || return 1
	__cell_fault=$("$BASH" --norc --noprofile -O extglob -n /dev/fd/0 <<<"$__cell_source" 2>&1 >/dev/null 253>&-) && return 1
	__cell_fault=${__cell_fault//\/dev\/fd\/0: /}
}

__cell_finish() {
	local lines= __cell_fault __cell_message
	__cell_is_running=
	if ((__cell_status == 130)) && [[ ! $__cell_ended ]]; then
		__cell_error Interrupted 'the run was interrupted (exit status 130)' 'Interrupted: the run was interrupted'
	elif ((__cell_status == 0)); then
		__cell_send 'done ok' ''
		return
	elif __cell_has_fault; then
		IFS=$'\n' builtin read -r -d '' -a lines <<<"$__cell_fault"
		__cell_error SyntaxError "${lines[0]}" "${lines[@]}"
	else
		__cell_explain "$__cell_status"
		__cell_error ExitStatus "$__cell_message" "$__cell_message"
	fi
	__cell_send 'done error' ''
}

# $? as the run before left it.
__cell_give_back() {
	return "$__cell_status"
}

__cell_begin_run() { # flags
	__cell_source=$__cell_payload __cell_ended= __cell_is_running=1
	if [[ $1 == *i* ]]; then
		declare -F read >/dev/null || builtin eval "$__cell_read"
	elif declare -F read >/dev/null && [[ $(declare -f read) == *__cell_ask* ]]; then
		unset -f read
	fi
	__cell_get_trap ERR
	[[ $__cell_trap ]] || builtin trap __cell_on_error ERR
	local first='PROMPT_COMMAND=; '
	[[ $__cell_trap == *__cell_on_error* ]] && first+='__cell_give_back; '
	__cell_get_trap EXIT
	[[ $__cell_trap ]] || builtin trap '__cell_on_exit $?' EXIT
	# As one command: what ends one line (an unset variable under `set -u`, a division by zero) ends them all, and
	# nothing runs of code that cannot be read. But not where a line changes how the next is read. Lines keep
	# their numbers.
	__cell_text="$first${__cell_flags:+set -$__cell_flags; }$__cell_source"
	if [[ ! $__cell_source =~ alias|extglob|posix|(^|$'\n')[[:space:]]*(set|shopt)[[:space:]]+-[a-z]*[vn] ]]; then
		local rest=$__cell_source
		while [[ $rest =~ ^([[:space:]]+|#[^$'\n']*) ]]; do
			rest=${rest:${#BASH_REMATCH[0]}}
		done
		[[ ! $rest ]] || __cell_text="{ $__cell_text"$'\n}'
	fi
}

# Between two runs. The first thing is to get hold of what the code has left: its status, its options, its traps.
__cell_turn() {
	{ local __cell_got=$? __cell_left=$-; set +evxu; } 2>/dev/null
	builtin printf '__cell_turn\n' >&0
	PROMPT_COMMAND= __cell_fd=253
	if [[ $__cell_stderr ]]; then
		exec 2>&"$__cell_stderr" {__cell_stderr}>&-
		__cell_stderr=
	else
		__cell_get_trap INT
		__cell_int=$__cell_trap
	fi
	builtin trap '' INT
	if [[ $__cell_is_running ]]; then
		# What was cut short did not come as far as to say how it ended.
		[[ $__cell_was ]] || __cell_was=$__cell_got __cell_now=$__cell_left
		__cell_status=${__cell_ended:-$__cell_was} __cell_flags=${__cell_now//[^evxu]/}
		__cell_finish
	fi
	__cell_text= __cell_was=
	while :; do
		__cell_take
		case ${__cell_words[0]} in
		run) __cell_begin_run "${__cell_words[2]}"; break ;;
		ask) __cell_answer "${__cell_words[1]}" ;;
		begin) __cell_begin ;;
		esac
	done
	if [[ $__cell_int && $__cell_int != *__cell_on_interrupt* ]]; then
		builtin eval "$__cell_int"
	else
		builtin trap __cell_on_interrupt INT
	fi
	PROMPT_COMMAND=$__cell_prompt
	return "$__cell_status"
}

# ---- questions ----

__cell_names() { # __cell_list: the user's variables
	local __cell_all __cell_name
	__cell_list=()
	builtin mapfile -t __cell_all < <(builtin compgen -v)
	for __cell_name in "${__cell_all[@]}"; do
		case $__cell_name in
		__cell* | BASH* | _ | PIPESTATUS | FUNCNAME | LINENO | RANDOM | SRANDOM | SECONDS | EPOCH* | DIRSTACK | COMP_* | REPLY | OPTIND | OPTERR | PPID | SHELLOPTS) ;;
		*) [[ $__cell_base == *" $__cell_name "* ]] || __cell_list+=("$__cell_name") ;;
		esac
	done
}

# Type, shape, size and the value as JSON of the variable $1.
__cell_look() {
	local -n __cell_ref=$1
	local __cell_attributes=${__cell_ref@a} __cell_key __cell_text= __cell_i=0
	[[ $__cell_attributes ]] || __cell_attributes=$(declare -p "$1" 2>/dev/null) && __cell_attributes=${__cell_attributes#declare -}
	__cell_attributes=${__cell_attributes%% *}
	__cell_shape=null __cell_size=0
	if [[ $__cell_attributes == *[aA]* ]]; then
		[[ $__cell_attributes == *A* ]] && __cell_type=map || __cell_type=array
		__cell_shape="[${#__cell_ref[@]}]"
		for __cell_key in "${!__cell_ref[@]}"; do
			if [[ $__cell_type == map ]]; then
				__cell_quote "$__cell_key"
				__cell_text+="${__cell_text:+, }$__cell_json: "
			elif [[ $__cell_text ]]; then
				__cell_text+=', '
			fi
			__cell_quote "${__cell_ref[$__cell_key]}"
			__cell_text+=$__cell_json
			__cell_size=$((__cell_size + ${#__cell_ref[$__cell_key]}))
		done
		[[ $__cell_type == map ]] && __cell_value="{$__cell_text}" || __cell_value="[$__cell_text]"
		return
	fi
	__cell_size=${#__cell_ref}
	if [[ $__cell_attributes == *i* ]]; then
		__cell_type=integer __cell_value=${__cell_ref:-0}
	else
		__cell_type=string
		__cell_quote "$__cell_ref"
		__cell_value=$__cell_json
	fi
}

__cell_shortly() { # $1 in at most 120 characters
	local s=${1:0:240}
	((${#s} > 120)) && s=${s:0:119}…
	__cell_quote "$s"
}

__cell_answer_vars() {
	local __cell_list __cell_type __cell_shape __cell_size __cell_value __cell_json
	__cell_names
	local LC_ALL=C.UTF-8 name text=
	for name in "${__cell_list[@]}"; do
		[[ ${!name+x} || $(declare -p "$name" 2>/dev/null) == *=* ]] || continue
		__cell_look "$name"
		__cell_shortly "$__cell_value"
		text+="${text:+, }{\"name\": \"$name\", \"type\": \"$__cell_type\", \"shape\": $__cell_shape, \"size\": $__cell_size, \"repr\": $__cell_json}"
	done
	builtin mapfile -t __cell_list < <(builtin compgen -A function)
	for name in "${__cell_list[@]}"; do
		[[ $name == __cell* || $name == exit && $(declare -f exit) == *__cell* || $name == read && $(declare -f read) == *__cell* ]] && continue
		__cell_shortly "$(declare -f -- "$name")"
		local shown=$__cell_json
		__cell_quote "$name"
		text+="${text:+, }{\"name\": $__cell_json, \"type\": \"function\", \"shape\": null, \"size\": null, \"repr\": $shown}"
	done
	__cell_reply="[$text]"
}

__cell_answer_get() {
	local name=$1 __cell_type __cell_shape __cell_size __cell_value __cell_json
	if [[ ! $name =~ ^[a-zA-Z_][a-zA-Z0-9_]*$ ]] || ! declare -p "$name" >/dev/null 2>&1; then
		if declare -f -- "$name" >/dev/null; then
			__cell_quote "$(declare -f -- "$name")"
			__cell_reply="{\"name\": \"$name\", \"type\": \"function\", \"data\": {\"text/plain\": $__cell_json}}"
			return 0
		fi
		__cell_problem="there is no variable '$name'"
		return 1
	fi
	__cell_look "$name"
	local -n __cell_ref=$name
	local plain
	[[ $__cell_type == array || $__cell_type == map ]] && plain=$__cell_value || plain=$__cell_ref
	__cell_quote "$plain"
	__cell_reply="{\"name\": \"$name\", \"type\": \"$__cell_type\", \"shape\": $__cell_shape, \"size\": $__cell_size, \"data\": {\"text/plain\": $__cell_json}, \"value\": $__cell_value}"
}

__cell_answer_set() {
	local name=${1%%$'\n'*} i __cell_kind __cell_value __cell_rest __cell_members
	__cell_problem="'$name' is not a name"
	[[ $name =~ ^[a-zA-Z_][a-zA-Z0-9_]*$ && $name != __cell* ]] || return 1
	__cell_problem="a shell has strings, numbers, lists and maps of them; this is something else, or no JSON"
	__cell_parse "${1#*$'\n'}" || return 1
	__cell_problem="'$name' cannot be set (is it readonly?)"
	if [[ $__cell_kind == array ]]; then
		unset -v "$name" 2>/dev/null && declare -ga "$name" || return 1
		local -n __cell_ref=$name
		__cell_ref=("${__cell_members[@]}")
	elif [[ $__cell_kind == object ]]; then
		unset -v "$name" 2>/dev/null && declare -gA "$name" || return 1
		local -n __cell_ref=$name
		for ((i = 0; i < ${#__cell_members[@]}; i += 2)); do
			__cell_ref[${__cell_members[i]}]=${__cell_members[i+1]}
		done
	else
		[[ $(declare -p "$name" 2>/dev/null) == 'declare -'[aAr]* ]] && { unset -v "$name" 2>/dev/null || return 1; }
		builtin printf -v "$name" %s "$__cell_value"
	fi
	__cell_reply="{\"name\": \"$name\", \"type\": \"$__cell_kind\"}"
}

__cell_answer_complete() {
	local LC_ALL=C cursor=${1%%$'\n'*} code=${1#*$'\n'} word head text= m found
	head=${code:0:cursor}
	word=${head##*[[:space:]=\;\|\&\(\`\"\'<>]}
	if [[ $word == '${'* ]]; then
		word=${word:2}
		builtin mapfile -t found < <(builtin compgen -v -- "$word")
	elif [[ $word == '$'* ]]; then
		word=${word:1}
		builtin mapfile -t found < <(builtin compgen -v -- "$word")
	elif [[ $word != */* && ${head%"$word"} =~ (^|[\;\|\&\(\`$'\n'])[[:space:]]*$ ]]; then
		builtin mapfile -t found < <(builtin compgen -c -- "$word")
	else
		builtin mapfile -t found < <(builtin compgen -f -- "$word")
	fi
	local -A seen=()
	for m in "${found[@]}"; do
		[[ $m && $m != __cell* && ! ${seen[$m]-} ]] || continue
		((${#seen[@]} < 1000)) || break
		seen[$m]=1
		[[ $m == */* || ! -d $m || $word != "${m:0:${#word}}" ]] || m=$m
		__cell_quote "$m"
		text+="${text:+, }$__cell_json"
	done
	__cell_reply="{\"matches\": [$text], \"start\": $((cursor - ${#word})), \"end\": $cursor}"
}

__cell_answer() {
	local __cell_reply= __cell_problem="unknown question '$1'" __cell_json
	case $1 in
	vars | get | set | complete)
		if "__cell_answer_$1" "$__cell_payload"; then
			__cell_send answer "$__cell_reply"
			__cell_send 'done ok' ''
			return
		fi
		;;
	esac
	__cell_error NameError "$__cell_problem" "NameError: $__cell_problem"
	__cell_send 'done error' ''
}

# ---- the beginning ----

__cell_begin() {
	local line key value __cell_json
	while IFS= builtin read -r line; do
		key=${line%%=*} value=${line#*=}
		value=${value//\\/\\\\}
		builtin printf -v value '%b' "${value//%/\\x}"
		case $key in
		cwd) builtin cd -- "$value" ;;
		env.*) [[ ${key#env.} =~ ^[a-zA-Z_][a-zA-Z0-9_]*$ ]] && builtin export "${key#env.}=$value" ;;
		esac
	done <<<"$__cell_payload"
	__cell_base=" $(builtin compgen -v | while IFS= builtin read -r line; do builtin printf '%s ' "$line"; done)"
	__cell_quote "$BASH"
	__cell_send ready "{\"language\": \"shell\", \"version\": \"${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}.${BASH_VERSINFO[2]}\", \"executable\": $__cell_json}"
}

for __cell_i in {1..200}; do
	builtin printf '__cell_turn\n' >&0
done
unset __cell_i
