"""Engines behind one interface: vLLM, and transformers where vLLM cannot run."""
