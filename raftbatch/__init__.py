"""The words every part of raftbatch shares.

What lives here: ids, errors, codecs, configuration, the Protocols through which the product
reaches the outer world (`world.py`), the generated messages (`v1/`), the client SDK and the
command line. What must never: an import of `coordinator` or `executor`, but for the commands
that serve, replay or dump, which import them inside a function. Importing this package is
light: it loads no other module.
"""

__version__ = "0.1.0.dev0"
