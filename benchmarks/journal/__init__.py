"""The parts of `benchmarks.bench_journal`."""
