# SPDX-License-Identifier: Apache-2.0
from test_repl import *  # noqa: F403
