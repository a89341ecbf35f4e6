"""Parts of bench_core: the work of a replica, and of a leader, without a loop, disk or network."""
