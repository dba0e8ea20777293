# text beyond ASCII is text
# needs: python3 locale
locale >/dev/null
export LC_ALL=C.UTF-8
python3 - <<'PY'
import locale, os, sys, time
assert locale.setlocale(locale.LC_ALL, "") == "C.UTF-8"
assert sys.stdout.encoding == "utf-8"
open("gr\u00fc\u00dfe", "w").write("\u4f60\u597d")
assert "gr\u00fc\u00dfe" in os.listdir(".")
time.tzset(); assert time.localtime().tm_year > 2000
PY
TZ=UTC date >/dev/null
