"""The parts of `benchmarks.bench_log`: the nodes, the harness that runs them, what is measured."""
