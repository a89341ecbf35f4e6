"""Measurements, one script each: `make bench` runs them all.

A script prints what it found, and takes `--json FILE` for its raw numbers.
"""
