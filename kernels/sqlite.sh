# SPDX-License-Identifier: Apache-2.0
# sqlite.sh: the driver of an SQL kernel where the cell has no Python: bash 4.4 or later and the `sqlite3` program (3.38 or later).
# It is given to bash as text at fd 4 and talks to the guest on fd 3 (docs/languages.md says what comes of it).
#
# One sqlite3 stays from run to run and gets one statement at a time, as a file to .read: so nothing in it, be it an open
# quote, can swallow what comes after. An interrupted sqlite3 ends by itself when it does not talk to a terminal, so the database is a file
# even when nobody named one: another one goes on with it.
#
# Rows come in the program's quote mode, that is as SQL, with types and blobs unharmed. A second sqlite3 makes of them
# everything that is shown, in SQL: here no value is ever looked at.

exec 9<&3 3<&- 4<&-
LC_ALL=C
shopt -s nocasematch
umask 077

DATA_ROWS=10000 # rows given as data
DATA_BYTES=8388608
DATA_LINES=200000 # of output that is looked at, so that memory stays small
database= problem= child= version= is_interrupted= dir=
params=()
trap 'is_interrupted=1' INT
trap ':' PIPE # sqlite3 may be gone; what it starts must not ignore the signal
trap 'exec 3>&- 2>/dev/null; [[ -z $dir ]] || rm -rf "$dir"' EXIT

# ---- the control channel ----

send() { # head payload
	printf '%s %d\n%s' "$1" "${#2}" "$2" >&9
}

# A message: words and payload. NUL bytes, which bash cannot hold, are left out.
take() {
	local left some
	IFS=' ' read -r -u 9 -a words || exit 0
	left=${words[${#words[@]}-1]} payload=
	while ((left > 0)); do
		IFS= read -r -d '' -n "$left" -u 9 some || [[ $some ]] || exit 0
		payload+=$some
		((${#some} < left)) && left=$((left - ${#some} - 1)) || left=0
	done
}

# $1 as a JSON string, in json.
quote() {
	local s=$1 i c code
	s=${s//\\/\\\\}
	s=${s//\"/\\\"}
	s=${s//$'\n'/\\n}
	s=${s//$'\t'/\\t}
	for ((i = 1; i < 32; i++)); do
		printf -v code '\\x%02x' "$i"
		printf -v c "$code"
		printf -v code '\\u%04x' "$i"
		s=${s//"$c"/"$code"}
	done
	json=\"$s\"
}

# $1 as an SQL string, in sql.
literal() {
	sql=\'${1//\'/\'\'}\'
}

fail() { # name message [line [text]]
	local name message trace=
	quote "$1" && name=$json
	quote "$2" && message=$json
	if [[ ${3-} ]]; then
		quote "line $3:" && trace+=$json,
		quote "${4:0:400}" && trace+=$json,
	fi
	quote "$1: $2" && trace+=$json
	send error "{\"name\":$name,\"message\":$message,\"traceback\":[$trace]${3:+,\"line\":$3}}"
}

# ---- sqlite3 ----

open_child() {
	[[ -z $child ]] || return 0
	: >"$dir/errors"
	coproc SQLITE { exec sqlite3 -batch -init /dev/null "$database" 9>&- 2>>"$dir/errors"; }
	child=$SQLITE_PID to=${SQLITE[1]} from=${SQLITE[0]}
	# nobody looks for an own file after a crash of the machine
	[[ ! $is_own ]] || tell 'PRAGMA synchronous=off;'
	((${#params[@]} == 0)) || tell ".read '$dir/params'"
}

close_child() {
	[[ $child ]] || return 0
	# it is idle, and rolls back what is open when it finds the end
	{ exec {to}>&- {from}<&-; } 2>/dev/null
	wait "$child" 2>/dev/null
	child=
}

# Lines for sqlite3; comes back when they are done. What it complains about is in complaint. False: it has ended.
tell() {
	local line
	complaint=
	printf '%s\n' "$1" ".output stdout" ".print cell:done" 2>/dev/null >&"$to"
	while :; do
		IFS= read -r -u "$from" line || { [[ ! $is_interrupted ]] || return 1; break; }
		[[ $line != cell:done ]] || break
	done
	[[ ! -s $dir/errors ]] || { complaint=$(<"$dir/errors"); : >"$dir/errors"; }
	[[ $line == cell:done ]]
}

# One statement ($1). With rows: the bundle is in table. False: error_name and error_text say why.
execute() {
	local how="|head -c $DATA_BYTES | head -n $DATA_LINES >'$dir/rows'; cat >/dev/null" gives_rows=
	table=
	printf '%s\n' "$1" >"$dir/statement"
	: >"$dir/rows"
	[[ $1 =~ ^(select|with|values|pragma|explain)($|[^a-z0-9_]) || $1 == *returning* ]] && gives_rows=1
	open_child
	if [[ $gives_rows ]]; then
		tell ".headers on
.mode quote
.separator \"\\f,\\f\" \"\\f),\\n(\\f\"
.output \"$how\"
.read '$dir/statement'"
	else
		tell ".read '$dir/statement'"
	fi || { ended; return 1; }
	if [[ $complaint ]]; then
		explain
		return 1
	fi
	[[ $gives_rows ]] || return 0
	if [[ -s $dir/rows ]]; then
		make_table
	else
		empty_table "$1"
	fi
}

ended() {
	close_child
	error_name=OperationalError error_text=${complaint%%$'\n'*}
	error_text=${error_text#Error: }
	[[ $error_text ]] || error_text="the sqlite3 program ended"
	[[ ! $is_interrupted && $error_text != *interrupted* ]] || error_name=Interrupted error_text="the run was interrupted"
}

explain() {
	error_name=OperationalError error_text=${complaint%%$'\n'*}
	if [[ $error_text =~ ^[a-z\ ]*error(\ near\ line\ [0-9]+)?:\ (.*)$ ]]; then
		error_text=${BASH_REMATCH[2]}
		[[ $error_text =~ ^(.*)\ \([0-9]+\)$ ]] && error_text=${BASH_REMATCH[1]}
	fi
	[[ $error_text != *'constraint failed'* ]] || error_name=IntegrityError
	[[ ! $is_interrupted && $error_text != *interrupted* ]] || error_name=Interrupted error_text="the run was interrupted"
}

# ---- tables ----

# A statement without rows has no head either; a view of it does.
empty_table() {
	local names
	[[ $1 =~ ^(select|with|values) ]] || return 0
	printf 'CREATE TEMP VIEW "cell:empty" AS %s\n' "$1" >"$dir/statement"
	tell ".headers off
.mode quote
.separator \"\\f,\\f\" \"\\f,\\f\"
.read '$dir/statement'
.output '$dir/rows'
SELECT name FROM pragma_table_info('cell:empty');
DROP VIEW IF EXISTS temp.\"cell:empty\";" || return 0
	names=$(<"$dir/rows")
	[[ $names ]] || return 0
	printf '%s\f),\n(\f' "${names%$'\f,\f'}" >"$dir/rows"
	make_table
}

RENDER=$(cat <<'END'
.output stdout
.mode list
.headers off
CREATE TABLE c(i, j, v);
.output columns
SELECT 'INSERT INTO c SELECT rowid - 1, ' || cid || ', "' || name || '" FROM r;' FROM pragma_table_info('r');
.output stdout
BEGIN;
.read columns
COMMIT;
CREATE INDEX ci ON c(j, i);
-- heads: as they are, and no two alike
CREATE TABLE h AS SELECT j, v AS name, v || CASE WHEN n > 1 THEN '_' || n ELSE '' END AS key
	FROM (SELECT j, v, row_number() OVER (PARTITION BY v ORDER BY j) AS n FROM c WHERE i = 0);
UPDATE h SET key = key || '_' WHERE key <> name AND key IN (SELECT name FROM h);
-- kinds: in the words of a Table Schema
CREATE TABLE k AS SELECT j, CASE group_concat(t, ',')
	WHEN 'integer' THEN 'integer' WHEN 'real' THEN 'number' WHEN 'integer,real' THEN 'number'
	WHEN 'text' THEN 'string' WHEN 'blob' THEN 'binary' ELSE 'any' END AS kind
	FROM (SELECT h.j, t FROM h LEFT JOIN (SELECT DISTINCT j, typeof(v) AS t FROM c WHERE i > 0 AND v IS NOT NULL) AS d
	ON d.j = h.j ORDER BY h.j, t) GROUP BY j;
-- what is shown
CREATE TABLE s AS SELECT i, j, v IS NULL AS is_null, CASE WHEN length(t) > 80 THEN substr(t, 1, 79) || '…' ELSE t END AS t FROM (
	SELECT i, j, v, CASE typeof(v)
		WHEN 'null' THEN 'NULL'
		WHEN 'blob' THEN CASE WHEN length(v) <= 16 THEN 'x''' || lower(hex(v)) || ''''
			ELSE 'x''' || lower(hex(substr(v, 1, 16))) || '…'' (' || length(v) || ' bytes)' END
		WHEN 'text' THEN replace(replace(replace(replace(v, char(10), '\n'), char(13), '\r'), char(9), '\t'), char(27), '\x1b')
		WHEN 'real' THEN CASE WHEN abs(v) > 1.7976931348623157e308 THEN CASE WHEN v > 0 THEN 'inf' ELSE '-inf' END
			ELSE replace(printf(CASE WHEN CAST(printf('%!.15g', v) AS REAL) = v THEN '%!.15g' ELSE '%!.17g' END, v), '.0e', 'e') END
		ELSE CAST(v AS TEXT) END AS t
	FROM c WHERE i <= 50);
CREATE TABLE w AS SELECT s.j, max(length(t)) AS width, kind IN ('integer', 'number') AS is_right FROM s JOIN k ON k.j = s.j GROUP BY s.j;
CREATE TABLE f AS SELECT n, m, '(' || CASE WHEN m THEN 'more than ' ELSE '' END || n || CASE WHEN n = 1 AND NOT m THEN ' row' ELSE ' rows' END
	|| CASE WHEN n > 50 OR m THEN ', the first ' || min(n, 50) || ' shown' ELSE '' END || ')' AS t
	FROM (SELECT max(i) AS n, is_more AS m FROM c, o);
CREATE TABLE lines AS SELECT i, rtrim(group_concat(CASE WHEN is_right THEN gap || t ELSE t || gap END, ' | ')) AS t
	FROM (SELECT i, t, is_right, printf('%*s', width - length(t), '') AS gap FROM s JOIN w ON w.j = s.j ORDER BY i, s.j) GROUP BY i;
CREATE TABLE html AS SELECT i, group_concat(CASE WHEN i = 0 THEN '<th>' || t || '</th>' WHEN is_null THEN '<td><i>NULL</i></td>' ELSE '<td>' || t || '</td>' END, '') AS t
	FROM (SELECT i, is_null, replace(replace(replace(replace(replace(t, '&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;'), '''', '&#x27;') AS t FROM s ORDER BY i, j) GROUP BY i;
-- blobs in base64: in pieces, so that none is copied once for each of its bytes
CREATE TABLE p AS WITH RECURSIVE n(i, j, q) AS (
	SELECT i, j, 1 FROM c JOIN o WHERE typeof(v) = 'blob' AND i BETWEEN 1 AND data_rows
	UNION ALL SELECT n.i, n.j, q + 3000 FROM n JOIN c ON c.i = n.i AND c.j = n.j WHERE q + 3000 <= length(v))
	SELECT n.i, n.j, q, substr(v, q, 3000) AS piece FROM n JOIN c ON c.i = n.i AND c.j = n.j;
CREATE TABLE b AS SELECT i, j, group_concat(t, '') AS t FROM (SELECT i, j, ifnull((
	WITH RECURSIVE m(k) AS (SELECT 1 WHERE length(piece) UNION ALL SELECT k + 3 FROM m WHERE k + 3 <= length(piece)),
	x(n, h) AS (SELECT length(hex(substr(piece, k, 3))), substr(hex(substr(piece, k, 3)) || '0000', 1, 6) FROM m),
	y(n, a, b, c, d, e, f) AS (SELECT n, instr(g, substr(h, 1, 1)), instr(g, substr(h, 2, 1)), instr(g, substr(h, 3, 1)), instr(g, substr(h, 4, 1)),
		instr(g, substr(h, 5, 1)), instr(g, substr(h, 6, 1)) FROM x, (SELECT '123456789ABCDEF' AS g))
	SELECT group_concat(substr(z, 1 + a * 4 + b / 4, 1) || substr(z, 1 + b % 4 * 16 + c, 1)
		|| CASE WHEN n > 2 THEN substr(z, 1 + d * 4 + e / 4, 1) ELSE '=' END || CASE WHEN n > 4 THEN substr(z, 1 + e % 4 * 16 + f, 1) ELSE '=' END, '')
	FROM y, (SELECT 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/' AS z)), '') AS t
	FROM p ORDER BY i, j, q) GROUP BY i, j;
CREATE INDEX bi ON b(i, j);
CREATE TABLE d AS SELECT i, json_group_object(key, json(v)) AS row FROM (
	SELECT i, key, CASE typeof(v)
		WHEN 'blob' THEN json_quote((SELECT t FROM b WHERE b.i = c.i AND b.j = c.j))
		WHEN 'real' THEN CASE WHEN abs(v) > 1.7976931348623157e308 THEN CASE WHEN v > 0 THEN '"inf"' ELSE '"-inf"' END
			WHEN CAST(printf('%!.15g', v) AS REAL) = v THEN printf('%!.15g', v) ELSE printf('%!.17g', v) END
		ELSE json_quote(v) END AS v
	FROM c JOIN h ON h.j = c.j JOIN o WHERE i BETWEEN 1 AND data_rows ORDER BY i, c.j) GROUP BY i;
SELECT json_object('data', json_object(
	'text/plain', (SELECT t FROM lines WHERE i = 0) || char(10)
		|| (SELECT group_concat(replace(printf('%*s', width, ''), ' ', '-'), '-+-') FROM (SELECT width FROM w ORDER BY j)) || char(10)
		|| ifnull((SELECT group_concat(t, char(10)) FROM (SELECT t FROM lines WHERE i > 0 ORDER BY i)) || char(10), '') || (SELECT t FROM f),
	'text/html', '<table><thead><tr>' || (SELECT t FROM html WHERE i = 0) || '</tr></thead><tbody>'
		|| ifnull((SELECT group_concat('<tr>' || t || '</tr>', '') FROM (SELECT t FROM html WHERE i > 0 ORDER BY i)), '') || '</tbody></table><p>' || (SELECT t FROM f) || '</p>',
	'application/vnd.dataresource+json', json_object(
		'schema', json_object('fields', (SELECT json_group_array(json(CASE kind WHEN 'binary'
			THEN json_object('name', key, 'type', 'string', 'format', 'binary') ELSE json_object('name', key, 'type', kind) END))
			FROM (SELECT key, kind FROM h JOIN k ON k.j = h.j ORDER BY h.j))),
		'data', (SELECT json_group_array(json(row)) FROM (SELECT row FROM d ORDER BY i)),
		'total', (SELECT n FROM f),
		'truncated', json(CASE WHEN (SELECT m OR n > data_rows FROM f, o) THEN 'true' ELSE 'false' END))),
	'metadata', json_object());
END
)

# What is in $dir/rows as a bundle, in table.
make_table() {
	local rows lines bytes is_more=0 sep=$'\f),\n(\f'
	read -r lines bytes < <(wc -lc <"$dir/rows")
	((lines < DATA_LINES && bytes < DATA_BYTES)) || is_more=1
	rows=$'\f'$(<"$dir/rows")
	rows=${rows%"$sep"*}$'\f'
	# the one number that is written in a way that cannot be read
	if [[ $rows == *Inf* ]]; then
		rows=${rows//$'\f'Inf$'\f'/$'\f'9e999$'\f'}
		rows=${rows//$'\f'-Inf$'\f'/$'\f'-9e999$'\f'}
	fi
	printf '%s\n' "CREATE TABLE o AS SELECT $is_more AS is_more, $DATA_ROWS AS data_rows;" "CREATE TABLE r AS VALUES ($rows);" "$RENDER" >"$dir/render"
	table=$(cd "$dir" && exec sqlite3 -batch -init /dev/null :memory: 9>&- <"$dir/render" 2>"$dir/trouble")
	[[ $table ]] && return 0
	error_name=OperationalError error_text="the rows cannot be shown: $(head -n 1 "$dir/trouble")"
	[[ ! $is_interrupted ]] || error_name=Interrupted error_text="the run was interrupted"
	return 1
}

# ---- statements ----

# The code $1 as statements and the lines at which they begin. Goes by pieces of lines: bash copies what it cuts up.
split() {
	local -a all
	local line rest in= text= part= is_begun= start=0 n=0 at size
	statements=() starts=()
	mapfile -t all <<<"$1"
	for line in "${all[@]}"; do
		n=$((n + 1)) at=0
		while ((at < ${#line})); do
			size=2048
			rest=${line:at:size}
			while [[ ${rest: -1} == [-/*] ]] && ((at + size < ${#line})); do # no piece ends inside of -- or */
				rest+=${line:at + size:1} size=$((size + 1))
			done
			at=$((at + size))
			split_piece
			text+=$part part=
		done
		[[ $in != - ]] || in=
		[[ -z $is_begun ]] || text+=$'\n'
	done
	[[ -z $is_begun ]] || add
}

# in: the end of what we are in, a quote or a comment (* or -).
split_piece() {
	while [[ $rest ]]; do
		case $in in
		-)
			[[ -z $is_begun ]] || part+=$rest
			return ;;
		'*')
			if [[ $rest != *'*/'* ]]; then
				[[ -z $is_begun ]] || part+=$rest
				return
			fi
			[[ -z $is_begun ]] || part+=${rest%%'*/'*}'*/'
			rest=${rest#*'*/'} in=
			continue ;;
		?)
			if [[ $rest != *"$in"* ]]; then
				part+=$rest
				return
			fi
			part+=${rest%%"$in"*}$in rest=${rest#*"$in"} in=
			continue ;;
		esac
		[[ $rest =~ ^[^\'\"\`\;\[/-]* ]]
		if [[ $is_begun || ${BASH_REMATCH[0]} == *[![:space:]]* ]]; then
			[[ $is_begun ]] || start=$n is_begun=1
			part+=${BASH_REMATCH[0]}
		fi
		rest=${rest:${#BASH_REMATCH[0]}}
		case $rest in
		'') ;;
		--*) in=- ;;
		'/*'*)
			[[ -z $is_begun ]] || part+='/*'
			rest=${rest:2} in='*' ;;
		';'*)
			rest=${rest:1}
			[[ $is_begun ]] || continue
			text+="$part;" part=
			if [[ ! ${text:0:200} =~ ^[[:space:]]*create[[:space:]]+(temp|temporary)?[[:space:]]*trigger[[:space:]] ||
				${text:${#text} < 200 ? 0 : -200} =~ \;[[:space:]]*end[[:space:]]*\;$ ]]; then
				add
			fi ;;
		*)
			[[ $is_begun ]] || start=$n is_begun=1
			part+=${rest:0:1}
			case $rest in
			[\'\"\`]*) in=${rest:0:1} ;;
			'['*) in=']' ;;
			esac
			rest=${rest:1} ;;
		esac
	done
}

add() {
	[[ ${text:0:2048} =~ ^[[:space:]]* ]]
	statements+=("${text:${#BASH_REMATCH[0]}}") starts+=("$start") text= is_begun=
}

run() {
	local i before=
	if [[ $problem ]]; then
		fail NotSupportedError "$problem"
		send 'done error'
		return
	fi
	split "$1"
	for ((i = 0; i < ${#statements[@]}; i++)); do
		if [[ $is_interrupted ]]; then
			error_name=Interrupted error_text="the run was interrupted"
		elif [[ ${statements[i]} == [.#]* ]]; then
			error_name=OperationalError error_text="near \"${statements[i]:0:1}\": syntax error"
		elif execute "${statements[i]}"; then
			[[ $table ]] || continue
			[[ -z $before ]] || send display "$before"
			before=$table
			continue
		fi
		[[ -z $before ]] || send display "$before"
		if [[ $error_name == Interrupted ]]; then
			close_child # it has seen the signal, too, and would end at the next line
			fail "$error_name" "$error_text"
		else
			fail "$error_name" "$error_text" "${starts[i]}" "${statements[i]%%$'\n'*}"
		fi
		send 'done error'
		return
	done
	[[ -z $before ]] || send result "$before"
	send 'done ok'
}

# ---- questions ----

# The rows of $1 in list mode, in found.
look() {
	open_child
	tell ".headers off
.mode list
.output '$dir/answer'
$1" || { ended; return 1; }
	[[ -z $complaint ]] || { explain; return 1; }
	found=$(<"$dir/answer")
}

TABLES="SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
	UNION ALL SELECT name, type FROM sqlite_temp_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"

answer_vars() {
	local counts
	# the number of rows takes a query for each table
	look "SELECT ifnull(group_concat('SELECT ' || quote(name) || ' AS name, (SELECT count(*) FROM \"' || replace(name, '\"', '\"\"') || '\") AS n', ' UNION ALL '),
		'SELECT NULL AS name, NULL AS n') FROM (SELECT name FROM ($TABLES) WHERE type = 'table' LIMIT 400);" || return 1
	counts=$found
	look "SELECT json_group_array(json_object('name', t.name, 'type', t.type, 'shape', json_array(c.n, (SELECT count(*) FROM pragma_table_info(t.name))), 'size', NULL,
		'repr', (SELECT substr(group_concat(rtrim(name || ' ' || type), ', '), 1, 200) FROM pragma_table_info(t.name)),
		'columns', (SELECT json_group_array(json_object('name', name, 'type', type)) FROM pragma_table_info(t.name))))
		FROM (SELECT * FROM ($TABLES) ORDER BY name) AS t LEFT JOIN ($counts) AS c ON c.name = t.name;" || return 1
}

answer_get() {
	local name
	literal "$1"
	look "SELECT name FROM ($TABLES) WHERE lower(name) = lower($sql) LIMIT 1;" || return 1
	name=$found
	if [[ -z $name ]]; then
		error_name=NameError error_text="there is no table or view '$1'"
		return 1
	fi
	execute "SELECT * FROM \"${name//\"/\"\"}\"" || return 1
	quote "$name"
	printf '%s' "$table" >"$dir/bundle"
	look "SELECT json_object('name', $(literal "$name"; printf %s "$sql"), 'type', (SELECT type FROM ($TABLES) WHERE name = $(literal "$name"; printf %s "$sql")),
		'shape', json_array(json_extract(b, '\$.data.\"application/vnd.dataresource+json\".total'), json_array_length(b, '\$.data.\"application/vnd.dataresource+json\".schema.fields')),
		'data', json_extract(b, '\$.data'), 'value', json_extract(b, '\$.data.\"application/vnd.dataresource+json\".data'))
		FROM (SELECT CAST(readfile('$dir/bundle') AS TEXT) AS b);"
}

answer_set() {
	local name=${1%%$'\n'*} value=${1#*$'\n'}
	name=${name#[:@\$]}
	if [[ ! $name =~ ^[a-z_][a-z0-9_]*$ ]]; then
		error_name=NameError error_text="'$name' cannot be the name of a parameter"
		return 1
	fi
	literal "$value"
	look "SELECT CASE WHEN json_valid(j) THEN quote(CASE json_type(j) WHEN 'array' THEN j WHEN 'object' THEN j ELSE json_extract(j, '\$') END) ELSE '' END FROM (SELECT $sql AS j);" || return 1
	if [[ -z $found ]]; then
		error_name=ValueError error_text="this is not JSON"
		return 1
	fi
	params+=("$name")
	printf '.param init\nINSERT OR REPLACE INTO temp.sqlite_parameters(key, value) VALUES (%s, %s);\n' "':$name'" "$found" >>"$dir/params"
	tell ".read '$dir/params'"
	found="{\"name\":\"$name\",\"type\":\"parameter\"}"
}

answer_complete() {
	local cursor=${1%%$'\n'*} code=${1#*$'\n'} before word
	before=${code:0:cursor}
	[[ $before =~ [a-zA-Z0-9_]*$ ]]
	word=${BASH_REMATCH[0]}
	literal "$word"
	look "SELECT json_object('matches', json_group_array(n), 'start', $((cursor - ${#word})), 'end', $cursor) FROM (SELECT DISTINCT n FROM (
		SELECT name AS n FROM ($TABLES) UNION ALL SELECT c.name FROM ($TABLES) AS t JOIN pragma_table_info(t.name) AS c
		UNION ALL SELECT candidate FROM completion($sql)) WHERE lower(substr(n, 1, ${#word})) = lower($sql) ORDER BY n LIMIT 1000);"
}

ask() { # what payload
	error_name= found=
	if [[ $problem ]]; then
		error_name=NotSupportedError error_text=$problem
	else
		case $1 in
		vars | get | set | complete) "answer_$1" "$2" ;;
		*) false; error_name=ValueError error_text="unknown question '$1'" ;;
		esac && { send answer "$found"; send 'done ok'; return; }
	fi
	fail "$error_name" "$error_text"
	send 'done error'
}

# ---- the loop ----

begin() {
	local line key value
	close_child
	while IFS= read -r line; do
		[[ $line == *=* ]] || continue
		key=${line%%=*} value=${line#*=}
		value=${value//\\/\\\\}
		printf -v value '%b.' "${value//%/\\x}"
		value=${value%.}
		case $key in
		cwd) cd "$value" ;;
		database) database=$value ;;
		env.*) export "${key#env.}=$value" ;;
		esac
	done <<<"$1"
	[[ $dir ]] || dir=$(mktemp -d "${TMPDIR:-/tmp}/cell-sql.XXXXXX") || problem="there is no room for a database in ${TMPDIR:-/tmp}"
	is_own=
	case $database in
	postgres:* | postgresql:* | duckdb:* | *.duckdb | *.ddb) problem="only SQLite works in a cell without Python" ;;
	sqlite:*) database=${database#sqlite:} ;;&
	'' | :memory:) database=$dir/database is_own=1 ;;
	-*) database=./$database ;;
	esac
	version=$(sqlite3 --version 9>&-)
	quote "${version%% *}"
	send ready "{\"language\":\"sql\",\"engine\":\"sqlite\",\"version\":$json}"
}

while :; do
	take
	if [[ $is_interrupted ]]; then # of the run before this one, which was over
		is_interrupted=
		close_child
	fi
	case ${words[0]} in
	begin) begin "$payload" ;;
	run) run "$payload" ;;
	ask) ask "${words[1]}" "$payload" ;;
	esac
done
