"""Benchmarks: what the forced draw costs, and what the audit finds."""
