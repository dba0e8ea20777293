# SPDX-License-Identifier: Apache-2.0
"""Large streams with little memory. CELL_TEST_BIG=1 adds the sizes that take minutes."""

import contextlib
import os
import subprocess
import threading
import time

import pytest
from conftest import CELL_PLAIN, command_line, descendants, peak_rss

LIMIT = 64 << 20
GIB = 1 << 30
BIG = bool(os.environ.get("CELL_TEST_BIG"))


@pytest.fixture
def cell(cell):
    """A sanitizer's own memory is many times ours: here the binary without one."""
    cell.program = CELL_PLAIN
    return cell


def is_python(pid):
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/exe") == os.path.realpath("/proc/self/exe")
    return False


class Memory:
    """Samples the peak memory of every process below ours while it is open."""

    def __enter__(self):
        self.peak, self.who, self.is_over = 0, "", False
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.is_over:
            for pid in descendants():
                if is_python(pid):  # ours, not yet become the program it starts
                    continue
                rss = peak_rss(pid)
                if rss > self.peak:
                    self.peak, self.who = rss, command_line(pid)
            time.sleep(0.1)

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()
        assert 0 < self.peak < LIMIT, f"'{self.who}' had {self.peak >> 20} MiB"


def through_cat(cell, size):
    source = subprocess.Popen(["head", "-c", str(size), "/dev/zero"], stdout=subprocess.PIPE)
    child = cell.popen("run", "--", "cat", stdin=source.stdout, stdout=subprocess.PIPE)
    source.stdout.close()
    count = subprocess.Popen(["wc", "-c"], stdin=child.stdout, stdout=subprocess.PIPE)
    child.stdout.close()
    with Memory():
        assert int(count.communicate(timeout=3000)[0]) == size
        assert child.wait(60) == 0
    source.wait()


def test_a_gibibyte_through_cat(cell):
    through_cat(cell, GIB)


@pytest.mark.skipif(not BIG, reason="set CELL_TEST_BIG=1")
def test_ten_gibibytes_through_cat(cell):
    through_cat(cell, 10 * GIB)


def copy_both_ways(cell, size):
    source, back = cell.dir / "source", cell.dir / "back"
    with open(source, "wb") as f:
        f.write(b"begin")
        f.truncate(size)
        f.seek(size - 3)
        f.write(b"end")
    with Memory():
        cell.ok("cp", source, "web:big", timeout=1000)
        cell.ok("cp", "web:big", back, timeout=1000)
    assert back.stat().st_size == size
    assert subprocess.run(["cmp", str(source), str(back)], check=False).returncode == 0


def test_a_large_file_both_ways(cell, web):
    copy_both_ways(cell, 200 << 20)


@pytest.mark.skipif(not BIG, reason="set CELL_TEST_BIG=1")
def test_two_gibibytes_both_ways(cell, web):
    copy_both_ways(cell, 2 * GIB + 123)


def test_a_command_writing_without_end_is_held_back(cell):
    part = 10_000
    script = f"i=0; while :; do head -c {part} /dev/zero; i=$((i + 1)); echo $i > next; mv next counter; done"
    child = cell.popen("run", "--", "sh", "-c", script)
    counter = cell.workspace / "counter"
    last, same = -1, 0
    with Memory():
        for _ in range(600):
            time.sleep(0.1)
            now = int(counter.read_text()) * part if counter.exists() else 0
            same = same + 1 if now == last and now > 0 else 0
            last = now
            if same >= 10:
                break
        assert same >= 10, f"still writing after {last} bytes"
        assert last < 48 << 20
        assert len(child.stdout.read(last + 1_000_000)) > last, "reading sets it going again"
    child.terminate()
    child.stdout.close()
    child.wait(30)
