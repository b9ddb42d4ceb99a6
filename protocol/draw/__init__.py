"""The public forced draw, version 1: which token was due at every position."""
