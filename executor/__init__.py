"""The process that runs models.

It tails its feed from any coordinator, runs batches, and reports to the leader.
It never imports `coordinator`; the two meet in the words of `raftbatch` alone. It imports torch
only where a backend needs it, and only when that backend is asked for.
"""
