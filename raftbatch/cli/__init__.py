"""The `raftbatch` command: one module for each group of subcommands.

A command that serves, replays or dumps needs the upper floors: it imports them inside its
function, and the floors test lists its module. All others import `raftbatch` alone, so that the
command starts fast and runs where only the SDK is of use.
"""
