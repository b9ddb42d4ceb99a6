"""Intake: the bytes of an input file become lines, validated requests and prompt token ids."""
