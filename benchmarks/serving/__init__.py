"""What benchmarks of the whole cluster share: its processes, a load through the SDK, measures."""
