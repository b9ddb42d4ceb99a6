"""Engines that cheat, for the demo, the tests and the benchmarks; no role ever imports them."""
