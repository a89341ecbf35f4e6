"""Networks that can be cut, slowed and made lossy, under real sockets: they do what they say.

Needs root, /dev/net/tun and `ip` (ci/apt.txt).
"""
