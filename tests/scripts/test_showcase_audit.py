"""The demo's second audit over a delivery that a real engine made and real keys signed."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bittensor_core import Keypair
from tokenizers import Tokenizer

from miner.engines.base import EngineSettings, make_engine
from protocol import merkle
from protocol.documents import (
    digest,
    lease_statement,
    result_root,
    result_statement,
    sample_leaf,
    verdict_leaf,
    verdict_root,
    verdict_statement,
    work_keys,
)
from protocol.keys import load_or_create_hotkey, sign_statement
from protocol.messages import SampleReference, SampleVerdict, Stack, Work
from protocol.receipts import LeasePart, ResultPart, SampleReceipt, VerdictPart
from protocol.repository import read_facts
from protocol.sampling import Sampling
from scripts.showcase.audit import failures_of
from scripts.up.plans import MODEL, WEIGHTS

UNIT = "01234567-89ab-7def-8123-456789abcdef"
REVISION = "a" * 40
STACK = Stack(
    engine="transformers", version="1", dtype="bfloat16", head_dtype="float32", device="cpu"
)
PROMPTS = ("Tell me a story.", "What is 7 times 8?")


@dataclass
class Delivery:
    receipts: list[SampleReceipt]
    output: list[dict[str, Any]]

    def failures(self) -> list[str]:
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.writelines(receipt.model_dump_json() + "\n" for receipt in self.receipts)
            file.flush()
            return failures_of(Path(file.name), self.output, WEIGHTS)


def unit(tokenizer: Tokenizer) -> Work:
    facts = read_facts(WEIGHTS, MODEL, REVISION)
    start, end = "<|im_start|>", "<|im_end|>\n"
    prompts = [
        tokenizer.encode(f"{start}user\n{text}{end}{start}assistant\n").ids for text in PROMPTS
    ]
    return Work(
        unit_id=UNIT,
        model=MODEL,
        revision=REVISION,
        seed=5,
        sampling=Sampling(temperature=0.8, top_p=0.95, max_tokens=48),
        vocabulary_size=facts.vocabulary_size,
        end_ids=list(facts.end_ids),
        prompts=prompts,
        samples=[SampleReference(prompt=number, sample_index=0) for number in range(len(prompts))],
    )


def receipts_of(work: Work, samples: list[list[int]], keypair: Keypair) -> list[SampleReceipt]:
    """One key signs for gateway, miner and validator alike."""
    engine_stack = STACK
    keys, hotkey = work_keys(work), keypair.ss58_address
    verdicts = [
        SampleVerdict(outcome="verified", tokens=len(ids), mismatches=0, largest_margin_micro=0)
        for ids in samples
    ]
    lease = lease_statement(UNIT, 1, hotkey, 0, work)
    terms = digest(lease).hex()
    root, judged = result_root(keys, samples), verdict_root(keys, verdicts)
    result = result_statement(UNIT, 1, terms, engine_stack, root)
    verdict = verdict_statement(UNIT, 1, terms, "rule/1", None, engine_stack, root, judged)
    result_paths = paths([sample_leaf(*pair) for pair in zip(keys, samples, strict=True)])
    verdict_paths = paths([verdict_leaf(*pair) for pair in zip(keys, verdicts, strict=True)])
    return [
        SampleReceipt(
            custom_id=f"q{place}",
            prompt_index=place,
            choice=0,
            prompt_ids=work.prompts[place],
            sample_index=0,
            draw_key=keys[place].hex(),
            token_ids=samples[place],
            unit_id=UNIT,
            attempt=1,
            miner=hotkey,
            result=ResultPart(
                stack=engine_stack,
                root=root,
                signature=sign_statement(keypair, result),
                leaf_index=place,
                leaf_count=len(keys),
                path=result_paths[place],
            ),
            verdict=VerdictPart(
                validator=hotkey,
                sample=verdicts[place],
                rule="rule/1",
                profile=None,
                stack=engine_stack,
                root=judged,
                signature=sign_statement(keypair, verdict),
                path=verdict_paths[place],
            ),
            lease=LeasePart(
                statement=lease,
                gateway=hotkey,
                signature=sign_statement(keypair, lease),
                path=paths(keys)[place],
            ),
        )
        for place in range(len(keys))
    ]


def paths(leaves: list[bytes]) -> list[list[str]]:
    return [[node.hex() for node in path] for path in merkle.paths(leaves)]


def row(custom_id: str, text: str) -> dict[str, Any]:
    choices = [{"index": 0, "message": {"role": "assistant", "content": text}}]
    return {"custom_id": custom_id, "response": {"body": {"choices": choices}}}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Work, list[list[int]], Keypair]:
    work = unit(Tokenizer.from_file(str(WEIGHTS / "tokenizer.json")))
    engine = make_engine("miner.engines.transformers_engine:TransformersEngine")
    engine.load(WEIGHTS, MODEL, REVISION, EngineSettings())
    samples = engine.generate(work, lambda tokens: None, lambda: False)
    engine.close()
    keypair = load_or_create_hotkey(tmp_path_factory.mktemp("keys") / "hotkey.json")
    return work, samples, keypair


def delivery(work: Work, samples: list[list[int]], keypair: Keypair) -> Delivery:
    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    output = [row(f"q{place}", tokenizer.decode(ids)) for place, ids in enumerate(samples)]
    return Delivery(receipts_of(work, samples, keypair), output)


def test_an_honest_delivery_passes(honest: tuple[Work, list[list[int]], Keypair]):
    assert delivery(*honest).failures() == []


def test_another_text_than_the_audited_one_is_found(
    honest: tuple[Work, list[list[int]], Keypair],
):
    given = delivery(*honest)
    given.output[1] = row("q1", "57")
    assert given.failures() == ["q1 #0: the output is not the audited sample's text"]


def test_a_choice_without_a_receipt_is_found(honest: tuple[Work, list[list[int]], Keypair]):
    given = delivery(*honest)
    given.output.append(row("q2", "unaudited"))
    assert given.failures() == ["q2 #0: the output is not the audited sample's text"]


def test_tokens_that_nobody_signed_are_found(honest: tuple[Work, list[list[int]], Keypair]):
    given = delivery(*honest)
    ids = given.receipts[0].token_ids
    forged = given.receipts[0].model_copy(update={"token_ids": [ids[0] ^ 1, *ids[1:]]})
    given.receipts[0] = forged
    assert (
        "q0 #0: result.path: does not lead from the sample to the result's root" in given.failures()
    )


def test_signed_tokens_that_the_draw_does_not_give_are_found(
    honest: tuple[Work, list[list[int]], Keypair],
):
    work, samples, keypair = honest
    ids = [samples[0][0] ^ 1, *samples[0][1:]]
    failures = delivery(work, [ids, samples[1]], keypair).failures()
    assert len(failures) == 1
    assert failures[0].startswith("q0 #0: void: ")
