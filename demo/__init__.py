"""The demo: real text through a cluster of processes, of which some are killed meanwhile.

    make demo                   all of it, in under two minutes
    make demo KEEP=1            the cluster stays up afterwards, to look around
    make demo SENTENCES=300     less of it

Pure, and tested one by one: `sentences` (what is embedded), `audit` (what is counted, and what
counts as wrong), `search`, `report` (what is printed). Around them: `traffic` (the client),
`scenario` (what is done, in which order), `screen`, `__main__`. Not in the wheel.
"""
