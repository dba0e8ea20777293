# SPDX-License-Identifier: Apache-2.0
from test_errors import *  # noqa: F403
