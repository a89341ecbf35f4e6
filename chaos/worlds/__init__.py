"""Worlds to run the product in: simulated ports, and faults over real ones."""
