# SPDX-License-Identifier: Apache-2.0
from test_files import *  # noqa: F403
