"""What every role must agree on byte for byte: draw, wire messages, signatures, chain."""
