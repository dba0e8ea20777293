#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A Jupyter kernel for comparison, told what to do on stdin, a word a line. Answers each with milliseconds.

    start   a kernel, until the result of its first 1+1
    run     1+1 in it
    stop    it
"""

import sys
import time

from jupyter_client import KernelManager

PATIENCE_S = 120
manager = client = None


def result_of(code):
    """Run to the end: its result, and that it is idle again."""
    run = client.execute(code)
    value = None
    while True:
        message = client.get_iopub_msg(timeout=PATIENCE_S)
        if message["parent_header"].get("msg_id") != run:
            continue
        if message["msg_type"] == "execute_result":
            value = message["content"]["data"]["text/plain"]
        elif message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            client.get_shell_msg(timeout=PATIENCE_S)
            return value


for line in sys.stdin:
    word = line.strip()
    begun = time.monotonic()
    if word == "start":
        manager = KernelManager()
        manager.start_kernel()
        client = manager.blocking_client()
        client.start_channels()
        client.wait_for_ready(timeout=PATIENCE_S)
    if word in ("start", "run") and result_of("1+1") != "2":
        sys.exit("1+1 is not 2")
    took = time.monotonic() - begun
    if word == "stop":
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    print("%.6f" % (took * 1000), flush=True)
