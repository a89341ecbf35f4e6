"""A harness that makes a world of real processes, says what it made, and waits for its end.

python -m tests.fabric.world_harness FOLDER
"""

import json
import os
import signal
import sys
from pathlib import Path

from chaos.worlds.processes import ProcessWorld
from tests.tidy.tree import ROOT


def main() -> None:
    """Make it, break some of it, say it, wait."""
    config = ROOT / "cluster_configs" / "chaos-3.toml"
    with ProcessWorld(
        Path(sys.argv[1]), config, seed=7, disks="loop", disk_bytes=32 << 20
    ) as world:
        world.start()
        world.pause("n1")  # it will not notice that we are gone
        if "memory" in world.has:
            world.limit_memory("n2", 1 << 30)
        made = {
            "processes": [world.pid(name) for name in world.everyone],
            "mounts": [str(disk.path) for disk in world.disks.values()],
        }
        sys.stdout.write(json.dumps(made) + "\n")
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    main()
