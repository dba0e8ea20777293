# SPDX-License-Identifier: Apache-2.0
"""A real Jupyter kernel (Debian's python3-ipykernel), for comparison: the same events as driver.Result."""

import os
import subprocess
import time

from driver import PATIENCE_S, Result


class Jupyter:
    def __init__(self, directory):
        from jupyter_client.manager import start_new_kernel

        home = directory.parent / (directory.name + "-home")
        home.mkdir()
        env = {**os.environ, "HOME": str(home), "IPYTHONDIR": str(home), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
        self.manager, self.client = start_new_kernel(
            startup_timeout=PATIENCE_S * 2, kernel_name="python3", cwd=str(directory), env=env, stderr=subprocess.DEVNULL
        )

    def run(self, code):
        sent = self.client.execute(code, allow_stdin=False, stop_on_error=False)
        events, status = [], None
        deadline = time.monotonic() + PATIENCE_S
        is_idle = False
        while not is_idle:
            m = self.client.get_iopub_msg(timeout=max(0.1, deadline - time.monotonic()))
            if m["parent_header"].get("msg_id") != sent:
                continue
            kind, content = m["msg_type"], m["content"]
            if kind == "stream":
                events.append((content["name"], content["text"].encode("utf-8", "surrogatepass")))
            elif kind == "execute_result":
                events.append(("result", {"data": content["data"], "metadata": content["metadata"]}))
            elif kind in ("display_data", "update_display_data"):
                event = {"data": content["data"], "metadata": content["metadata"]}
                name = content.get("transient", {}).get("display_id")
                if name:
                    event["id"] = name
                if kind == "update_display_data":
                    event["update"] = True
                events.append(("display", event))
            elif kind == "error":
                events.append(("error", {"name": content["ename"], "message": content["evalue"], "traceback": content["traceback"]}))
            elif kind == "clear_output":
                events.append(("clear", {"wait": content["wait"]}))
            elif kind == "status":
                is_idle = content["execution_state"] == "idle"
        reply = self.client.get_shell_msg(timeout=PATIENCE_S)
        while reply["parent_header"].get("msg_id") != sent:
            reply = self.client.get_shell_msg(timeout=PATIENCE_S)
        status = reply["content"]["status"]
        # What its pager would show: the help of thing?
        for payload in reply["content"].get("payload", ()):
            if payload.get("source") == "page":
                events.append(("page", payload["data"]))
        return Result(events, status, b"", [])

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
