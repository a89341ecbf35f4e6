"""What is run over a world and checked: a workload, its nemeses and its checkers together."""
