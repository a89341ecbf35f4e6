"""The generated messages of `raftbatch.v1`.

`make proto` writes them from proto/raftbatch/v1/. Never edit them.
"""
