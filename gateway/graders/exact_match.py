"""``exact_match_v1``: the completion is the reference, but for white space around it."""

from gateway.graders.answers import after_thinking


def grade(reference: str, completion: str) -> bool:
    """Say whether a completion answers its reference (``docs/graders.md``, section 3)."""
    return after_thinking(completion).strip() == reference.strip()
