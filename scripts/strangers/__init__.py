"""``scripts/demo --network``: ten strangers mine, three validators weigh them."""
