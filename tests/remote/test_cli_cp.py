# SPDX-License-Identifier: Apache-2.0
from test_cp import *  # noqa: F403
