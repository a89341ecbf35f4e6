"""`python -m raftbatch` is the `raftbatch` command. Nothing else lives here."""

from raftbatch.cli.main import main

if __name__ == "__main__":
    main()
