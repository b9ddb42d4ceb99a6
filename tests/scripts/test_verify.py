"""``reliquary verify``: what holds passes, and whatever was changed is found and named."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bittensor_core import Keypair
from checked_delivery import (
    COMPLETIONS,
    REVISION,
    SIGNERS,
    Case,
    row,
)
from tokenizers import Tokenizer

from miner.engines.base import EngineSettings, make_engine
from protocol.manifest import MANIFEST, OUTPUT, RECEIPTS
from protocol.messages import Work
from scripts.bench.made_delivery import Model, make_delivery
from scripts.cli import main
from scripts.tiny_model import WEIGHTS
from scripts.up.plans import MODEL as TINY
from scripts.verify.audit import audit_again
from scripts.verify.check import verify
from scripts.verify.discrepancy import Discrepancy, Uncheckable
from scripts.verify.manifest import read_manifest
from scripts.verify.report import Assurance, summary


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


def test_the_model_is_looked_up_at_a_networks_own_hub(tmp_path: Path, monkeypatch):
    """The working folder's file names it; one that came with the delivery is not read."""
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    delivery = tmp_path / "delivery"
    delivery.mkdir()
    for folder, hub in ((tmp_path, "http://own"), (delivery, "http://theirs")):
        (folder / "reliquary.env").write_text(f"RELIQUARY_HUB={hub}\n")
    for folder, looked_up_at in ((delivery, None), (tmp_path, "http://own")):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["reliquary", "verify", str(delivery), "--input", "x"])
        with pytest.raises(SystemExit):
            main()
        assert os.environ.get("HF_ENDPOINT") == looked_up_at


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
