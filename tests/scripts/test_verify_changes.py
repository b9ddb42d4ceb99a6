"""Whatever is changed in a delivery is found and named, and nothing hostile does harm."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from checked_delivery import (
    SIGNERS,
    Case,
    check,
    signed_anew,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.intake.outcome import Intake
from protocol.keys import sign_statement
from protocol.manifest import (
    ERRORS,
    FILES,
    GRADES,
    MANIFEST,
    OUTPUT,
    RECEIPTS,
    REPORT,
    Manifest,
    signed_manifest,
)
from scripts.verify.discrepancy import Discrepancy
from scripts.verify.prompts import check_terms

DELIVERED = [MANIFEST, REPORT, *FILES]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every leaf of a JSON value with its path; an empty list or object is one too."""
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for name, inner in items:
            yield from leaves(inner, (*path, name))
    else:
        yield path, value


def changed(value: Any, path: tuple[Any, ...], leaf: Any) -> Any:
    """Return a copy of a JSON value with another leaf at ``path``."""
    if not path:
        return leaf
    inner = value.copy()
    inner[path[0]] = changed(value[path[0]], path[1:], leaf)
    return inner


def other_leaves(leaf: Any) -> Iterator[Any]:
    """Yield a near value of the same type where there is one, and values of another kind."""
    match leaf:
        case bool():
            yield not leaf
        case int():
            yield from (leaf + 1, 2**53 - 1, 2**70)
        case str():
            last = leaf[-1:]
            yield leaf[:-1] + ("1" if last != "1" else "2")
        case []:
            yield [0]
    yield [[]]


def dotted(path: tuple[Any, ...]) -> str:
    return re.sub(r"^\.", "", "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path))


def encoded(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def line_changes(content: bytes, line: int) -> Iterator[tuple[tuple[Any, ...], bytes]]:
    """Yield a JSONL file once for each change of a leaf of one of its lines."""
    rows = content.splitlines(keepends=True)
    value = json.loads(rows[line])
    for path, leaf in leaves(value):
        for other in other_leaves(leaf):
            new = encoded(changed(value, path, other))
            yield path, b"".join([*rows[:line], new, *rows[line + 1 :]])


def test_every_leaf_of_the_manifest_is_bound(case: Case, copy: Path):
    manifest = json.loads((copy / MANIFEST).read_bytes())
    seen = set()
    for path, leaf in leaves(manifest):
        for other in other_leaves(leaf):
            value = changed(manifest, path, other)
            (copy / MANIFEST).write_bytes(json.dumps(value, sort_keys=True).encode())
            with pytest.raises(Discrepancy) as found:
                case.verify(copy)
            assert found.value.file == MANIFEST
            assert found.value.field
            seen.add(path)
    assert len(seen) == len(list(leaves(manifest))) > 35


@pytest.mark.parametrize("signed", [False, True], ids=["changed later", "signed by the gateway"])
@pytest.mark.parametrize(("name", "line"), [(RECEIPTS, 2), (OUTPUT, 1), (ERRORS, 0), (ERRORS, 1)])
def test_every_leaf_of_a_line_is_bound(
    name: str, line: int, signed: bool, case: Case, intake: Intake, copy: Path
):
    original = (copy / name).read_bytes()
    for path, content in line_changes(original, line):
        if signed and path[-1] in ("leaf_index", "leaf_count"):
            # Some other places in a tree have a path of the same shape; they mean the same.
            continue
        (copy / name).write_bytes(content)
        if signed:
            signed_anew(copy)
        with pytest.raises(Discrepancy) as found:
            check(case, intake, copy)
        assert found.value.file == name, dotted(path)
        if name != RECEIPTS:
            assert found.value.field
            assert dotted(path).startswith(found.value.field)
            assert found.value.line == line + 1


def test_what_a_lying_gateway_states_is_held_to_the_file(case: Case, intake: Intake, copy: Path):
    """Every leaf of the statement but those that nobody else knows is checked by content."""
    manifest = json.loads((copy / MANIFEST).read_bytes())
    unknown = {("status",), ("template_time",), ("input", "bytes"), ("input", "sha256")}
    seen = 0
    for path, leaf in leaves(manifest["statement"]):
        if path in unknown or path == ("grader",):
            continue
        statement = changed(manifest["statement"], path, next(other_leaves(leaf)))
        try:
            made = Manifest.model_validate({**manifest, "statement": statement}).statement
        except ValueError:
            continue
        (copy / MANIFEST).write_bytes(signed_manifest(SIGNERS.gateway, made).encoded())
        with pytest.raises(Discrepancy):
            check_terms(made, intake)
            check(case, intake, copy)
        seen += 1
    assert seen > 20


@pytest.mark.parametrize("member", ["created_at", "template_time"])
def test_a_time_that_no_calendar_has_is_named(member: str, case: Case, copy: Path):
    manifest = json.loads((copy / MANIFEST).read_bytes())
    manifest["statement"][member] = 2**53 - 1
    signature = sign_statement(SIGNERS.gateway, manifest["statement"])
    (copy / MANIFEST).write_bytes(encoded({**manifest, "signature": signature}))
    with pytest.raises(Discrepancy) as found:
        case.verify(copy)
    assert (found.value.file, found.value.field) == (MANIFEST, f"statement.{member}")


def test_a_grader_that_was_not_asked_for_is_found(case: Case, copy: Path):
    signed_anew(copy, grader="exact_match_v1")
    with pytest.raises(Discrepancy, match="reference"):
        case.verify(copy)


@pytest.mark.parametrize("name", [REPORT, OUTPUT, GRADES])
def test_the_manifest_names_all_files_and_no_other(
    name: str, case: Case, intake: Intake, copy: Path
):
    manifest = json.loads((copy / MANIFEST).read_bytes())
    files = manifest["statement"]["files"]
    if files.pop(name, None) is None:
        files[name] = {"bytes": 0, "sha256": "00" * 32}
    else:
        # The statement has three files at least.
        files[GRADES] = {"bytes": 0, "sha256": "00" * 32}
    made = Manifest.model_validate(manifest).statement
    (copy / MANIFEST).write_bytes(signed_manifest(SIGNERS.gateway, made).encoded())
    with pytest.raises(Discrepancy) as found:
        check(case, intake, copy)
    assert (found.value.file, found.value.field) == (MANIFEST, f"statement.files.{name}")


@pytest.mark.parametrize(
    "name", ["output-00001.jsonl", "part-00000.parquet", "part-1 (copy).parquet", "grades.jsonl"]
)
def test_what_would_be_read_along_is_named(name: str, case: Case, intake: Intake, copy: Path):
    """A pattern such as ``part-*.parquet`` takes what no manifest answers for."""
    (copy / "notes.txt").touch()
    (copy / ".run.json").touch()
    check(case, intake, copy)
    (copy / name).touch()
    with pytest.raises(Discrepancy, match="not of this delivery") as found:
        check(case, intake, copy)
    assert found.value.file == name


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_flipped_byte_is_found(case: Case, intake: Intake, copy: Path, data: st.DataObject):
    name = data.draw(st.sampled_from(DELIVERED))
    original = (case.delivery / name).read_bytes()
    place = data.draw(st.integers(0, len(original) - 1))
    mask = data.draw(st.integers(1, 255))
    content = bytearray(original)
    content[place] ^= mask
    (copy / name).write_bytes(content)
    try:
        with pytest.raises(Discrepancy) as found:
            check(case, intake, copy)
    finally:
        (copy / name).write_bytes(original)
    assert found.value.file == name
    str(found.value).encode("ascii")


@pytest.mark.parametrize("name", DELIVERED)
@pytest.mark.parametrize("edit", ["truncated", "longer", "a line less", "doubled", "empty", "gone"])
def test_files_of_another_length_are_found(
    name: str, edit: str, case: Case, intake: Intake, copy: Path
):
    content = (copy / name).read_bytes()
    rows = content.splitlines(keepends=True)
    edits = {
        "truncated": content[:-2],
        "longer": content + b" ",
        "a line less": b"".join(rows[:-1]),
        "doubled": b"".join([*rows, rows[-1]]),
        "empty": b"",
    }
    if edit == "gone":
        (copy / name).unlink()
    else:
        (copy / name).write_bytes(edits[edit])
    with pytest.raises(Discrepancy) as found:
        check(case, intake, copy)
    assert found.value.file == name


HOSTILE = {
    "huge integer": b'{"custom_id":' + b"9" * 100_000 + b"}\n",
    "deep lists": b"[" * 200_000 + b"\n",
    "deep objects": b'{"a":' * 200_000 + b"\n",
    "not UTF-8": b'{"custom_id":"\xff\xfe"}\n',
    "half a surrogate": b'{"custom_id":"\\ud800"}\n',
    "NaN": b'{"custom_id":NaN}\n',
    "a bare value": b"7\n",
    "NUL": b"\x00" * 1_000 + b"\n",
    "many members": b"{" + b",".join(b'"k%d":1' % n for n in range(50_000)) + b"}\n",
}


@pytest.mark.parametrize("name", DELIVERED)
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_content_is_named(name: str, kind: str, case: Case, intake: Intake, copy: Path):
    (copy / name).write_bytes(HOSTILE[kind])
    if name != MANIFEST:
        signed_anew(copy)
    with pytest.raises(Discrepancy) as found:
        check(case, intake, copy)
    assert found.value.file == name
    text = str(found.value)
    assert len(text) < 600
    assert text.isascii() and text.isprintable()


@pytest.mark.parametrize("place", ["lease.statement", "verdict.sample.marks", "stack"])
@pytest.mark.parametrize("kind", ["huge integer", "deep lists", "float", "NaN", "surrogate"])
def test_hostile_members_of_a_receipt_are_named(
    place: str, kind: str, case: Case, intake: Intake, copy: Path
):
    values = {
        "huge integer": b"9" * 5_000,
        "deep lists": b"[" * 5_000 + b"]" * 5_000,
        "float": b"1.5e300",
        "NaN": b"NaN",
        "surrogate": b'"\\udfff"',
    }
    member = {
        "lease.statement": (b'"attempt":1,"miner"', b'"attempt":%s,"miner"'),
        "verdict.sample.marks": (b'"marks":[[0,0,1]]', b'"marks":[[%s,0,1]]'),
        "stack": (b'"parallelism":1', b'"parallelism":%s'),
    }[place]
    content = (copy / RECEIPTS).read_bytes()
    assert member[0] in content
    new = content.replace(member[0], member[1].replace(b"%s", values[kind]), 1)
    (copy / RECEIPTS).write_bytes(new)
    signed_anew(copy)
    with pytest.raises(Discrepancy) as found:
        check(case, intake, copy)
    assert (found.value.file, found.value.line) == (RECEIPTS, 1)


@pytest.mark.parametrize("name", DELIVERED)
def test_a_line_of_a_gigabyte_is_not_read(name: str, case: Case, intake: Intake, copy: Path):
    with (copy / name).open("r+b") as file:
        file.truncate(2**30)
    with pytest.raises(Discrepancy) as found:
        check(case, intake, copy)
    assert found.value.file == name


@pytest.mark.parametrize("name", DELIVERED)
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_plain_files_are_read(name: str, kind: str, case: Case, intake: Intake, copy: Path):
    (copy / name).rename(copy / "away")
    makers: dict[str, Callable[[Path], Any]] = {
        "link": lambda path: path.symlink_to(copy / "away"),
        "pipe": os.mkfifo,
        "folder": Path.mkdir,
    }
    makers[kind](copy / name)
    with pytest.raises(Discrepancy) as found:
        check(case, intake, copy)
    assert found.value.file == name
