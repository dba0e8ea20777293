# SPDX-License-Identifier: Apache-2.0
from test_terminal import *  # noqa: F403
