# SPDX-License-Identifier: Apache-2.0
from test_big import *  # noqa: F403
