"""A customer's batch from a file to a verified delivery: ``reliquary batch``."""
