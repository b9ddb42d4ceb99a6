"""Many nodes at one gateway: how long a lease takes, and whether work is doubled or lost."""
