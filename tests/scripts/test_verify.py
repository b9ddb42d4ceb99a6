"""``reliquary verify``: what holds passes, and whatever was changed is found and named."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from bittensor_core import Keypair
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_model import MODEL, write_small_model
from tokenizers import Tokenizer

from gateway.intake.outcome import Intake
from miner.engines.base import EngineSettings, make_engine
from protocol.documents import work_keys
from protocol.keys import sign_statement
from protocol.manifest import ERRORS, FILES, MANIFEST, OUTPUT, RECEIPTS, Manifest, signed_manifest
from protocol.messages import Work
from scripts.bench.made_delivery import Model, Signers, make_delivery
from scripts.tiny_model import WEIGHTS
from scripts.up.plans import MODEL as TINY
from scripts.verify.audit import audit_again
from scripts.verify.check import check_files, verify
from scripts.verify.discrepancy import Discrepancy, Uncheckable
from scripts.verify.manifest import read_manifest
from scripts.verify.prompts import check_terms, rendered
from scripts.verify.receipts import Expected
from scripts.verify.report import Assurance, Report, summary

REVISION = "ab" * 20
SIGNERS = Signers()
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
# One sample of line 1 is missing, and all of line 3.
MISSING = frozenset({(1, 0), (3, 0), (3, 1)})


def row(custom_id: str, text: str, **body: Any) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 16, "n": 2} | body
    return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body}


ROWS = [
    row("q0", "hello"),
    row("q1", "hello"),
    {"custom_id": "bad\u2028", "method": "GET"},
    row("q2", "world \U0001f600"),
    row("q3", "user"),
    row("q4", "hello"),
]


def drawn(work: Work) -> list[list[int]]:
    """Return legal ids made from the draw keys: some end by themselves, some at the limit."""
    limit, samples = work.sampling.max_tokens, []
    for key in work_keys(work):
        length = 1 + key[0] % (limit + 8)
        ids = [byte for byte in (key * 4)[1 : 1 + min(length, limit)]]
        samples.append(ids if length >= limit else [*ids, work.end_ids[0]])
    return samples


class Case:
    """A model, an input file and its delivery, which tests copy and change."""

    def __init__(self, folder: Path, rows: list[dict[str, Any]], generate: Any = drawn) -> None:
        self.folder = folder
        self.model = Model(MODEL, REVISION, folder / "model")
        write_small_model(self.model.folder)
        self.input = folder / "in.jsonl"
        self.input.write_text("".join(json.dumps(one) + "\n" for one in rows))
        self.delivery = folder / "delivery"
        self.deliver(self.input, self.delivery, generate)

    def deliver(self, ordered: Path, into: Path, generate: Any = drawn) -> Path:
        into.mkdir()
        make_delivery(into, ordered, self.model, generate, SIGNERS, unit_lines=2, missing=MISSING)
        return into

    def render(self, work: Path) -> Intake:
        statement = read_manifest(self.delivery, None).statement
        work.mkdir()
        return rendered(statement, self.input, self.model.folder, work)

    def verify(self, delivery: Path | None = None, **options: Any) -> Report:
        return verify(delivery or self.delivery, self.input, own_model=self.model.folder, **options)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tmp_path_factory.mktemp("verify"), ROWS)


@pytest.fixture(scope="module")
def intake(case: Case) -> Intake:
    return case.render(case.folder / "work")


@pytest.fixture
def copy(case: Case, tmp_path: Path) -> Path:
    return shutil.copytree(case.delivery, tmp_path / "copy")


def check(case: Case, intake: Intake, delivery: Path) -> Report:
    """Check a delivery of the case's input without rendering that anew."""
    manifest = read_manifest(delivery, None)
    expected = Expected(manifest.statement, manifest.gateway, None)
    return check_files(delivery, expected, intake, case.model.folder)


def signed_anew(delivery: Path, **changes: Any) -> None:
    """Sign the manifest over the files as they are, as a gateway that lies would."""
    manifest = json.loads((delivery / MANIFEST).read_bytes())
    statement = manifest["statement"] | changes
    for name in FILES:
        content = (delivery / name).read_bytes()
        record = {"bytes": len(content), "sha256": sha256(content).hexdigest()}
        statement["files"][name] = record
    manifest["statement"] = statement
    whole = Manifest.model_validate(manifest)
    (delivery / MANIFEST).write_bytes(signed_manifest(SIGNERS.gateway, whole.statement).encoded())


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


def test_a_whole_delivery_holds(case: Case):
    report = case.verify(
        gateway=SIGNERS.gateway.ss58_address,
        validators=frozenset({SIGNERS.validator.ss58_address}),
    )
    assert (report.lines_completed, report.lines_short, report.samples) == (3, 2, 7)
    assert report.same_input
    assert report.refused == {"invalid_method": 1}
    assert report.short == [("q1", 1), ("q3", 0)]
    assert report.miners == {SIGNERS.miner.ss58_address: 7}
    assert report.validators == {SIGNERS.validator.ss58_address: 7}
    receipts = [json.loads(one) for one in (case.delivery / RECEIPTS).read_bytes().splitlines()]
    assert report.completion_tokens == sum(len(one["token_ids"]) for one in receipts)


def test_completions_hold(tmp_path: Path):
    rows = [
        {
            "custom_id": f"q{place}",
            "method": "POST",
            "url": COMPLETIONS,
            "body": {"prompt": prompt, "max_tokens": 16, "seed": 5},
        }
        for place, prompt in enumerate(["hello world", [5, 6, 7]])
    ]
    report = Case(tmp_path, rows).verify()
    assert (report.samples, report.statement.seed_drawn) == (1, False)


def test_the_summary_says_what_is_not_proved(case: Case):
    report = case.verify()
    bare = "\n".join(summary(report, Assurance(False, False, False, None)))
    for word in ("--audit", "seed only once", "--gateway-hotkey", "--model", "--validator-hotkeys"):
        assert word in bare
    assert '"q3": 0 of 2 samples' in bare
    full = "\n".join(summary(report, Assurance(True, True, True, 12)))
    assert "--" not in full
    assert "All 12 tokens were drawn again" in full


def test_another_model_than_was_ordered_is_found(case: Case):
    statement = read_manifest(case.delivery, None).statement
    for ordered in (statement.model, f"{statement.model}@{statement.revision}"):
        case.verify(model=ordered)
    for ordered, field in (
        ("nobody/other", "model"),
        (f"nobody/other@{statement.revision}", "model"),
        (f"{statement.model}@{'0' * 40}", "revision"),
    ):
        with pytest.raises(Discrepancy, match="is ") as found:
            case.verify(model=ordered)
        assert (found.value.file, found.value.field) == (MANIFEST, f"statement.{field}")


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


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_flipped_byte_is_found(case: Case, intake: Intake, copy: Path, data: st.DataObject):
    name = data.draw(st.sampled_from([MANIFEST, *FILES]))
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


@pytest.mark.parametrize("name", [MANIFEST, *FILES])
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


@pytest.mark.parametrize("name", [MANIFEST, *FILES])
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


@pytest.mark.parametrize("name", [MANIFEST, *FILES])
def test_a_line_of_a_gigabyte_is_not_read(name: str, case: Case, intake: Intake, copy: Path):
    with (copy / name).open("r+b") as file:
        file.truncate(2**30)
    with pytest.raises(Discrepancy) as found:
        check(case, intake, copy)
    assert found.value.file == name


@pytest.mark.parametrize("name", [MANIFEST, *FILES])
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


def test_a_changed_prompt_is_found_though_all_is_signed(case: Case, tmp_path: Path):
    lied = tmp_path / "lied.jsonl"
    lied.write_text(case.input.read_text().replace("world", "system"))
    with pytest.raises(Discrepancy) as found:
        case.verify(case.deliver(lied, tmp_path / "delivery"))
    place = (found.value.file, found.value.line, found.value.custom_id)
    assert place == (RECEIPTS, 4, "q2")
    assert (found.value.field or "").startswith("prompt_ids[")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"temperature": 0.5}, "statement.sampling.temperature"),
        ({"n": 3}, "statement.n"),
        ({"seed": 9}, "statement.seed_drawn"),
    ],
)
def test_other_terms_are_found_though_all_is_signed(
    change: dict, field: str, case: Case, tmp_path: Path
):
    rows = [json.loads(one) for one in case.input.read_text().splitlines()]
    for one in rows:
        if "body" in one:
            one["body"] |= change
    lied = tmp_path / "lied.jsonl"
    lied.write_text("".join(json.dumps(one) + "\n" for one in rows))
    with pytest.raises(Discrepancy) as found:
        case.verify(case.deliver(lied, tmp_path / "delivery"))
    assert found.value.file == MANIFEST
    assert found.value.field == field


def test_hotkeys_that_were_not_expected_are_found(case: Case):
    other = Keypair.create_from_uri("//other").ss58_address
    with pytest.raises(Discrepancy) as found:
        case.verify(gateway=other)
    assert (found.value.file, found.value.field) == (MANIFEST, "gateway")
    with pytest.raises(Discrepancy) as found:
        case.verify(validators=frozenset({other}))
    assert (found.value.line, found.value.field) == (1, "verdict.validator")


def test_another_models_terms_are_found(case: Case, copy: Path):
    (case.folder / "other").mkdir(exist_ok=True)
    other = shutil.copytree(case.model.folder, case.folder / "other", dirs_exist_ok=True)
    tokenizer = Tokenizer.from_file(str(other / "tokenizer.json"))
    end = tokenizer.token_to_id("<|endoftext|>")
    (other / "generation_config.json").write_text(json.dumps({"eos_token_id": end}))
    with pytest.raises(Discrepancy) as found:
        verify(copy, case.input, own_model=other)
    assert (found.value.file, found.value.field) == (MANIFEST, "statement.end_ids[0]")


def test_what_cannot_be_checked_is_said(case: Case, tmp_path: Path):
    with pytest.raises(Uncheckable, match="cannot read"):
        verify(case.delivery, tmp_path / "none.jsonl", own_model=case.model.folder)
    with pytest.raises(Uncheckable, match=r"config\.json"):
        verify(case.delivery, case.input, own_model=tmp_path)


def test_a_file_that_cannot_be_ordered_is_named(case: Case, tmp_path: Path):
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text("hello\n")
    with pytest.raises(Discrepancy, match="no order can be placed on your file"):
        verify(case.delivery, wrong, own_model=case.model.folder)


def command(case: Case, delivery: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run ``reliquary verify``, which must get along without torch unless it audits."""
    loaded = "assert audit or 'torch' not in sys.modules, 'torch was imported'"
    code = (
        "import atexit, sys; from scripts.cli import main; audit = '--audit' in sys.argv; "
        f"atexit.register(lambda: exec({loaded!r})); main()"
    )
    arguments = ["verify", str(delivery), "--input", str(case.input)]
    own = ["--model-folder", str(case.model.folder)]
    return subprocess.run(
        [sys.executable, "-c", code, *arguments, *own, *options], text=True, capture_output=True
    )


def test_the_command_tells_by_its_status(case: Case, copy: Path):
    gateway = SIGNERS.gateway.ss58_address
    done = command(case, copy, "--gateway-hotkey", gateway)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("ALL HOLDS.\n")
    text = (copy / OUTPUT).read_text()
    (copy / OUTPUT).write_text(text.replace('"stop"', '"length"', 1))
    done = command(case, copy, "--validator-hotkeys", f"{SIGNERS.validator.ss58_address},x")
    assert (done.returncode, done.stderr) == (1, "")
    assert re.fullmatch(
        r"DOES NOT HOLD: output\.jsonl, line \d, custom_id \"q\d\", "
        r"response\.body\.choices\[\d\]\.finish_reason: is \"length\", not \"stop\"\n",
        done.stdout,
    )
    done = command(case, copy / "none")
    assert done.returncode == 2
    assert "is no folder" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Model, Path, Any]]:
    """The tiny model, a file for it, and what an honest miner generates for it."""
    folder = tmp_path_factory.mktemp("tiny")
    path = folder / "in.jsonl"
    rows = [row("q0", "Tell me a story."), row("q1", "What is 7 times 8?")]
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    model = Model(TINY, REVISION, WEIGHTS)
    engine = make_engine("miner.engines.transformers_engine:TransformersEngine")
    engine.load(WEIGHTS, TINY, REVISION, EngineSettings())

    def generate(work: Work) -> list[list[int]]:
        return engine.generate(work, lambda tokens: None, lambda: False)

    yield model, path, generate
    engine.close()


def test_the_audit_draws_every_token_again(tiny: tuple[Model, Path, Any], tmp_path: Path):
    model, path, generate = tiny
    tokens = 0

    def counted(work: Work) -> list[list[int]]:
        nonlocal tokens
        samples = generate(work)
        tokens += sum(map(len, samples))
        return samples

    make_delivery(tmp_path, path, model, counted, SIGNERS)
    report = verify(tmp_path, path, own_model=model.folder)
    assert audit_again(tmp_path, report.statement, model.folder) == tokens > 0


def test_the_audit_finds_what_everybody_signed(tiny: tuple[Model, Path, Any], tmp_path: Path):
    model, path, generate = tiny

    def forged(work: Work) -> list[list[int]]:
        first, *others = generate(work)
        return [[first[0] ^ 1, *first[1:]], *others]

    make_delivery(tmp_path, path, model, forged, SIGNERS)
    report = verify(tmp_path, path, own_model=model.folder)
    with pytest.raises(Discrepancy) as found:
        audit_again(tmp_path, report.statement, model.folder)
    place = (found.value.file, found.value.line, found.value.custom_id)
    assert place == (RECEIPTS, 1, "q0")
    assert found.value.message.startswith("void: ")
