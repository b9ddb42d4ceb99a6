"""``reliquary bench export``: what a large delivery takes the gateway that writes it."""
