# SPDX-License-Identifier: Apache-2.0
from test_named import *  # noqa: F403
