# temporary files can be made and locked
# needs: python3 mktemp flock
[ -w "$(mktemp)" ]
[ -d "$(mktemp -d)" ]
exec 9>lock
flock -n 9
python3 - <<'PY'
import fcntl, os, tempfile
with tempfile.TemporaryFile() as f: f.write(b"x" * 100000); f.flush()
with tempfile.NamedTemporaryFile() as f: assert os.path.exists(f.name)
fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
os.link(f"/proc/self/fd/{fd}", "named", src_dir_fd=fd, follow_symlinks=True)
fcntl.lockf(fd, fcntl.LOCK_EX)
PY
