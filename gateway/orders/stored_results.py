"""A stored result, read sample by sample: parsing the whole of a large one would hold others up.

It is stored as ``Result.model_dump_json`` writes it, without white space, and no sample is empty.
"""

import json
from collections.abc import Iterator

_BEFORE = b'"samples":['


def sample_texts(document: bytes) -> Iterator[bytes]:
    """Yield the ids of each sample of a stored result, in order, as the JSON text of a list."""
    # No string can hold this: quotes inside of one are escaped.
    place = document.index(_BEFORE + b"[") + len(_BEFORE)
    while True:
        end = document.index(b"]", place) + 1
        yield document[place:end]
        if document[end : end + 1] != b",":
            return
        place = end + 1


def sample_lengths(document: bytes) -> list[int]:
    """Return the length in ids of each sample of a stored result."""
    return [text.count(b",") + 1 for text in sample_texts(document)]


def sample_ids(document: bytes) -> list[list[int]]:
    """Return the ids of each sample of a stored result."""
    return [json.loads(text) for text in sample_texts(document)]


def without_samples(document: bytes) -> bytes:
    """Return a stored result as JSON that has one sample of one id, to parse the rest of it."""
    start = document.index(_BEFORE) + len(_BEFORE)
    end = document.rindex(b"]]") + 1
    return document[:start] + b"[0]" + document[end:]
