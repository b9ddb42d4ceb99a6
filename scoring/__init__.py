"""Pure statistics and policy: margins, evidence, reputation. No I/O, no clock, no network."""
