# SPDX-License-Identifier: Apache-2.0
from test_deps import *  # noqa: F403
