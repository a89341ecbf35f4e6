"""Tests of the repository itself.

Each check is a pure function: sources in, complaints out. Each is run twice: over the tree,
where it must find nothing, and over a planted offender, where it must: a check that cannot fail
is a defect.
"""
