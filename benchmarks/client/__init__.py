"""Parts of `benchmarks.bench_client`."""
