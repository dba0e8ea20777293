# SPDX-License-Identifier: Apache-2.0
from test_code import *  # noqa: F403
