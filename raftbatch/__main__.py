"""The `raftbatch` command: `python -m raftbatch`, and the script of that name, call `main`.

Nothing else lives here, and nothing is imported but inside `main`: what it takes to be able to
say anything takes so long that somebody may have pressed Ctrl-C by then.
"""

import sys

_INTERRUPTED = 130  # as shells have it: 128 and the number of SIGINT


def main() -> None:
    """Run the command line; where Ctrl-C comes before it has begun, end without a word."""
    try:
        from raftbatch.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
