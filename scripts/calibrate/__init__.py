"""``reliquary calibrate``: measures the honest margins that the audit's evidence rests on."""
