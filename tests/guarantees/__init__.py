"""Tests named after a promise, each quoting the sentence that it holds."""
