"""The client port: gRPC, and what it says of `coordinator.node`.

What lives here: messages into calls, and results into messages. What must never
live here: a decision. Called by: the composition root.
"""
