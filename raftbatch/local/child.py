"""`raftbatch` as a process of a local cluster: the same command, that ends with whoever began it.

Standard input is a pipe from there, on which nothing ever comes. It ends when its other end is
closed, or when that process dies, however it dies; and then this one ends at once. The kernel's
own way to ask for that is bound to the thread that began a process, and such threads may end.

What lives here: that. What must never live here: a command. Called by: `processes`.
"""

from __future__ import annotations

import os
import signal
import threading

from raftbatch.cli.main import main as command


def main() -> None:
    """Run the command of our arguments, for as long as the pipe is open."""
    pipe = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # The thread must take no signal: what they do is the command's business.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    threading.Thread(target=_watch, args=(pipe,), name="parent", daemon=True).start()
    # Whoever began us may have blocked some for itself.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    command()


def _watch(pipe: int) -> None:
    os.read(pipe, 1)
    os._exit(1)


if __name__ == "__main__":
    main()
