# SPDX-License-Identifier: Apache-2.0
"""Servers of the tests, for as long as a `with` lasts."""

import contextlib
import threading


@contextlib.contextmanager
def serving(server):
    """A server of http.server or socketserver, in a thread of its own."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
