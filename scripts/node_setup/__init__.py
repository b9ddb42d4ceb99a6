"""``reliquary miner setup`` and ``reliquary validator setup``: from an empty machine to a start."""
