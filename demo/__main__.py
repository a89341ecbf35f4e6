"""`python -m demo`: see the package.

What lives here: that Ctrl-C is quiet from the start. Called by: `make demo`.
"""

import signal
import sys


def main() -> int:
    """Run it; return the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until there is something to be ended
    from demo.run import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
