"""Where in a completion its answer stands (``docs/graders.md``, sections 1 and 2). Linear time."""

import re

_THOUGHT_END = "</think>"
_PIECES = re.compile(
    r"(?P<box>\\{1,2}(?:boxed|fbox)\s*\{)|(?P<escaped>\\.)|(?P<open>\{)|(?P<close>\})", re.DOTALL
)
_BOX = re.compile(r"\\{1,2}(?:boxed|fbox)\s*(?=\{)")


def after_thinking(completion: str) -> str:
    """Return what follows the last ``</think>``; all of a completion that has none."""
    return completion.rpartition(_THOUGHT_END)[2]


def last_box(text: str) -> str | None:
    r"""Return what the last ``\boxed{...}`` or ``\fbox{...}`` holds; None where it is not closed.

    None, too, where there is none. The last is the one that begins last. Where it lies in others,
    the outermost of them counts, and the commands of those inside it are dropped.
    """
    opened: list[tuple[int, int] | None] = []
    closed: list[tuple[int, int, int]] = []
    last = -1
    for piece in _PIECES.finditer(text):
        if piece.lastgroup == "box":
            last = piece.start()
            opened.append((last, piece.end()))
        elif piece.lastgroup == "open":
            opened.append(None)
        elif piece.lastgroup == "close" and opened:
            box = opened.pop()
            if box is not None:
                closed.append((*box, piece.start()))
    end = next((end for start, _, end in closed if start == last), None)
    if end is None:
        return None
    _, begin, end = min(box for box in closed if box[0] <= last and box[2] >= end)
    return _BOX.sub("", text[begin:end])
