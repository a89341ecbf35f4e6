"""Storage over real files: damaged, refused, killed, cut off from power (G1, G15)."""
