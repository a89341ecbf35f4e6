"""A harness that makes a fabric, says what it made, and waits for its end.

python -m tests.fabric.harness
"""

import json
import os
import signal
import subprocess
import sys

from chaos.worlds.fabric import Fabric
from chaos.worlds.namespaces import ours

_SHELL = "trap '' TERM HUP; sleep 3600 & echo $$ $!; wait"


def main() -> None:
    """Make it, say it, wait."""
    with Fabric(["n1", "n2"]) as fabric:
        process = fabric.run("n1", ["sh", "-c", _SHELL], stdout=subprocess.PIPE)
        assert process.stdout is not None
        made = {
            "address": fabric.harness,
            "namespaces": [name for name in ours() if f"-{os.getpid()}-" in name],
            "switch": fabric.switch.pid,
            "processes": [int(pid) for pid in process.stdout.readline().split()],
        }
        sys.stdout.write(json.dumps(made) + "\n")
        sys.stdout.flush()
        signal.pause()


if __name__ == "__main__":
    main()
