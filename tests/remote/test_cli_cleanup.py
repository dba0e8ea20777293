# SPDX-License-Identifier: Apache-2.0
from test_cleanup import *  # noqa: F403
