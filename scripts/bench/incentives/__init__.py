"""A market of miners over weeks: what honesty earns, and what each deviation does."""
