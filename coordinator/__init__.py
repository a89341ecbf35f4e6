"""The process that votes and serves.

It admits requests, gathers them into windows, and commits batches to the log.
Three floors, imports go down only: `core` is the pure machine that every replica runs, `raft`
is consensus over bytes, and the shell above them is the only place where bytes become records.
Never imported by `executor`.
"""
