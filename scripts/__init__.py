"""The command line, demo, local hub, benchmarks, cheats and the tiny model's maker."""
