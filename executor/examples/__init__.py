"""Small models to begin with: what one looks like, and something to try a cluster with."""
