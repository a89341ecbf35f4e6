"""The pure machine: what an entry does to the state, and what the leader should propose next.

Total and deterministic: no clock, no randomness, no input or output, no logging, no iteration
over sets, integers for time. The tidy test holds this. Everything that acts lives above, in the
shell that calls it.
"""
