"""Faults on purpose: worlds, workloads, nemeses, checkers and histories.

The same workloads run over a simulated world (one seed, one identical run) and over real
processes. It is not part of the wheel, and the product never imports it.
"""
