"""Networks that can be cut, slowed and made lossy, under real sockets, and our nodes on them.

The networks do what they are told (test_fabric.py) and leave nothing (test_leftovers.py); three
nodes on them keep their promises (test_raft.py, test_drawn.py). Needs root, /dev/net/tun and `ip`
(ci/apt.txt).
"""
