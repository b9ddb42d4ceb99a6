"""Any file, of good lines, broken ones and odd bytes: every line is in one place.

The oracle shares no code with intake: it splits at line feeds and reads with the standard library.
"""

import json
from collections.abc import Sequence
from typing import Any

from ended_batch import input_lines
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.intake.outcome import FileRefusal

LINE = {"method": "POST", "url": "/v1/chat/completions"}
BODY = {"messages": [{"role": "user", "content": "hello"}]}
GOOD = [json.dumps({"custom_id": f"q{at}", **LINE, "body": BODY}).encode() for at in range(4)]
ODD = [
    b"", b" ", b"\t\r", b"\r", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", "\u2028".encode(),
    "\u0085".encode(), "\u00a0".encode(), b"null", b"[]", b"{}", b"{", b"}", b"//", b"NaN", b",",
    b'{"custom_id": "q0"}', b'{"custom_id": "\\ud800"}', b'{"custom_id": "q9", "custom_id": "q0"}',
    b"[" * 300, b'{"a":' * 300, b"9" * 5_000, b"\x1f\x8b\x08",
]  # fmt: skip


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    """A good line of which some bytes were cut out and others put in their place."""
    line = draw(st.sampled_from(GOOD))
    start = draw(st.integers(0, len(line)))
    end = min(len(line), start + draw(st.integers(0, 3)))
    return line[:start] + draw(st.binary(max_size=3) | st.sampled_from(ODD)) + line[end:]


pieces = st.one_of(
    st.sampled_from(ODD), st.sampled_from(ODD + GOOD), st.binary(max_size=12), changed()
)
separators = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b"\r"])
files = st.lists(st.tuples(pieces, separators), min_size=3, max_size=12)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files, st.booleans(), st.sampled_from([True, False, False, False]))
def test_every_line_is_in_one_place(
    run: Any, read: Any, parts: Sequence[tuple[bytes, bytes]], mark: bool, bare: bool
) -> None:
    content = b"".join(piece + separator for piece, separator in parts)
    content = b"\xef\xbb\xbf" * mark + content + (b"" if bare else GOOD[0])
    lines = input_lines(content)
    outcome = run(content)
    if isinstance(outcome, FileRefusal):
        # Where the lines differ in a member that was changed, or none is left.
        assert outcome.status == 422
        assert outcome.code in ("invalid_batch_file", "mixed_sampling", "invalid_max_tokens")
        assert outcome.code != "invalid_batch_file" or "no_usable_line" in outcome.message
        return
    found = read(content)
    usable = [row["line"] for row in found.usable]
    refused = [row["line"] for row in found.refused]
    assert usable == sorted(usable)
    assert refused == sorted(refused)
    assert sorted(usable + refused) == list(lines)
    taken: set[object] = set()
    for row in found.usable:
        line = lines[row["line"]]
        assert line is not None
        assert row["custom_id"] == line["custom_id"]
        assert row["custom_id"] not in taken
        taken.add(row["custom_id"])
    for row in found.refused:
        line = lines[row["line"]]
        assert row["custom_id"] in ("", None if line is None else line.get("custom_id"))
        assert row["error"]["code"] and row["error"]["message"]
    # A good line is used unless an earlier line has its name.
    codes = found.codes()
    for at, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if raw.strip(b" \t\r") in GOOD and at not in usable:
            assert codes[at] == "duplicate_custom_id"
            names = [line.get("custom_id") for line in lines.values() if line is not None]
            assert names.count(json.loads(raw)["custom_id"]) > 1
