"""The miner node: lease, generate under the forced draw, sign, submit."""
