"""The catalog: which models can be ordered, and what the gateway must know of them."""
