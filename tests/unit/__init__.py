"""Tests of one part each: no network, no processes, no sleeps."""
