"""Readable scripts of the protocol, each with the trace it must give: see `language`."""
