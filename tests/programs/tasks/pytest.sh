# pytest runs tests
# needs: pytest
printf 'import subprocess, sys\ndef test_it(tmp_path):\n    assert subprocess.check_output([sys.executable, "-c", "print(1)"]) == b"1\\n"\n' >test_a.py
pytest -q -p no:cacheprovider test_a.py
