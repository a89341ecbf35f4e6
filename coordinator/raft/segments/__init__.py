"""The files of the journal: their bytes, reading, writing and recovery.

    limits    the bounds of a journal                                   pure
    layout    what the bytes of a segment mean                          pure
    scan      reading a segment's records, and judging where they end   pure
    index     where in the files each live entry is                     pure
    terms     the term of each entry                                    pure
    tail      the newest entries in memory                              pure
    mark      up to where the journal was synced, as evidence
    writer    the one that writes, on the journal's writing thread
    reader    reading entries back, on its reading thread
    replay    reading everything in order, every claim checked: at start, and offline
    recovery  beginning a journal, and opening one

`coordinator.raft.journal` puts them together; the offline dump uses `replay`.
"""
