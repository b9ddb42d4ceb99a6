"""``reliquary bench audit``: the tokens that each cheat needs to be found by."""
