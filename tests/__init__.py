"""All tests: `unit` for one part each, `tidy` for the repository itself."""
