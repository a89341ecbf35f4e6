"""Tests of real processes: the command line, its servers, and the network between them."""
