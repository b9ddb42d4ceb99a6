"""The chain that nodes register on: one interface, keyed by hotkey, and its implementations."""
