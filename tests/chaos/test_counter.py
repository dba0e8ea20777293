# SPDX-License-Identifier: Apache-2.0
"""A command that counts while servers come and go. CHAOS_SECONDS says for how long (4; the whole promise is 60)."""

import contextlib
import http.client
import json
import os
import random
import threading
import time

import pytest
from harness import Server


@pytest.fixture
def server(tmp_path):
    s = Server(tmp_path / "server")
    s.start()
    yield s
    s.clean_up()


def test_a_counter_is_seen_whole(server):
    seconds = float(os.environ.get("CHAOS_SECONDS", "4"))
    n = int(seconds * 20)
    s = server.client().session()
    exec_id = s.background(f"i=0; while [ $i -lt {n} ]; do echo $i; i=$((i+1)); sleep 0.05; done")
    is_over = threading.Event()

    def kill_now_and_then():
        while not is_over.wait(random.uniform(0.2, 2)):
            server.restart(is_killed=random.random() < 0.9)

    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    seen, exit_code, attached = "", None, 0
    end = time.monotonic() + 10 * seconds + 60
    try:
        while exit_code is None:
            assert time.monotonic() < end, seen[-100:]
            with contextlib.suppress(OSError, http.client.HTTPException, json.JSONDecodeError):
                events = s.follow(exec_id, stdout_offset=len(seen))
                attached += 1
                for e in events:
                    if e["type"] == "stdout":
                        assert e["offset"] == len(seen)
                        seen += e["data"]
                    exit_code = e.get("exit_code", exit_code) if e["type"] == "exit" else exit_code
            time.sleep(0.02)
    finally:
        is_over.set()
        killer.join()
    assert exit_code == 0
    assert [int(i) for i in seen.split()] == list(range(n))
    assert attached > 1
