"""Graders: whether a completion answers its line's reference; the rules are ``docs/graders.md``."""
