# SPDX-License-Identifier: Apache-2.0
from test_run import *  # noqa: F403
