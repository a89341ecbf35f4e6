"""Consensus over bytes: the log, its journal on disk, its snapshots and its peers.

It never imports `coordinator.core`: what the bytes mean is the business of the replica above.
It alone imports pysyncobj, whose faults it mends.
"""
