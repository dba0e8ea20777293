# SPDX-License-Identifier: Apache-2.0
"""Everything is killed at random points under load, and nothing is lost, doubled or left behind.

CHAOS_ROUNDS says how often (10), CHAOS_SEED makes the choices those of an earlier run as far as the machine allows.
"""

import os
import random

from world import World, rounds


def test_everything_survives(tmp_path):
    seed = os.environ.get("CHAOS_SEED") or str(random.randrange(1 << 32))
    print(f"CHAOS_SEED={seed}")
    world = World(tmp_path, seed)
    try:
        rounds(world, int(os.environ.get("CHAOS_ROUNDS", "10")), 4)
        world.close()
    except BaseException:
        print(world.server.log()[-6000:])
        raise
    finally:
        print(world.counts)
        world.abandon()
    assert world.counts.get("commands whole", 0) > 0
