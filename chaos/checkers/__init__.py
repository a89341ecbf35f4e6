"""Checkers: what must hold of a run, told apart from how the run is made."""
