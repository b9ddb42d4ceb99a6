"""``reliquary verify``: a delivery held to the customer's own file, offline and without torch."""
