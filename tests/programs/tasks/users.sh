# the user has a name, a home and a machine with a name
# needs: python3 id getent
python3 - <<'PY'
import getpass, os, pwd, socket
assert getpass.getuser() == pwd.getpwuid(os.getuid()).pw_name
assert os.path.isdir(os.path.expanduser("~")) and os.access(os.path.expanduser("~"), os.W_OK)
assert socket.gethostbyname("localhost") == "127.0.0.1"
assert socket.gethostbyname(socket.gethostname())
PY
id -un
