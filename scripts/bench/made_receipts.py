"""Receipts made without a network: three keys sign real documents over samples of any making."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from bittensor_core import Keypair

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
from protocol.keys import sign_statement
from protocol.messages import SampleVerdict, Stack, Work
from protocol.receipts import LeasePart, ResultPart, SampleReceipt, VerdictPart
from scoring.profile import bin_of
from scoring.published import chosen
from scoring.sample_rule import RULE
from scripts.verify.prompts import ExpectedLine

CREATED_AT = 1_762_685_000
STACK = Stack(
    engine="transformers", version="1", dtype="bfloat16", head_dtype="float32", device="cpu"
)


@dataclass(frozen=True)
class Signers:
    """The keys of gateway, miner and validator; those of bittensor's development phrase."""

    gateway: Keypair = field(default_factory=lambda: Keypair.create_from_uri("//gateway"))
    miner: Keypair = field(default_factory=lambda: Keypair.create_from_uri("//miner"))
    validator: Keypair = field(default_factory=lambda: Keypair.create_from_uri("//validator"))


def receipts_of(
    work: Work, samples: list[list[int]], lines: Sequence[ExpectedLine], n: int, signers: Signers
) -> dict[int, list[SampleReceipt]]:
    """Return the receipts of a unit by line; all its samples count as verified with one margin."""
    profile = chosen(work.model, STACK, STACK).digest
    draw_keys, hotkey = work_keys(work), signers.miner.ss58_address
    verdicts = [
        SampleVerdict(
            outcome="verified",
            tokens=len(ids),
            mismatches=1,
            largest_margin_micro=1_000,
            marks=[(0, 0, bin_of(0.001))],
        )
        for ids in samples
    ]
    lease = lease_statement(work.unit_id, 1, hotkey, CREATED_AT, work)
    lease_digest = digest(lease).hex()
    root, judged = result_root(draw_keys, samples), verdict_root(draw_keys, verdicts)
    result = result_statement(work.unit_id, 1, lease_digest, STACK, root)
    verdict = verdict_statement(work.unit_id, 1, lease_digest, RULE, profile, STACK, root, judged)
    signatures = (
        sign_statement(signers.gateway, lease),
        sign_statement(signers.miner, result),
        sign_statement(signers.validator, verdict),
    )
    key_paths = _paths(draw_keys)
    result_paths = _paths([sample_leaf(*pair) for pair in zip(draw_keys, samples, strict=True)])
    verdict_paths = _paths([verdict_leaf(*pair) for pair in zip(draw_keys, verdicts, strict=True)])
    found: dict[int, list[SampleReceipt]] = defaultdict(list)
    for place, key in enumerate(draw_keys):
        line, choice = lines[place // n], place % n
        found[line.index].append(
            SampleReceipt(
                custom_id=line.custom_id,
                prompt_index=line.index,
                choice=choice,
                prompt_ids=line.prompt_ids,
                sample_index=line.first_sample_index + choice,
                draw_key=key.hex(),
                token_ids=samples[place],
                unit_id=work.unit_id,
                attempt=1,
                miner=hotkey,
                result=ResultPart(
                    stack=STACK,
                    root=root,
                    signature=signatures[1],
                    leaf_index=place,
                    leaf_count=len(draw_keys),
                    path=result_paths[place],
                ),
                verdict=VerdictPart(
                    validator=signers.validator.ss58_address,
                    sample=verdicts[place],
                    rule=RULE,
                    profile=profile,
                    stack=STACK,
                    root=judged,
                    signature=signatures[2],
                    path=verdict_paths[place],
                ),
                lease=LeasePart(
                    statement=lease,
                    gateway=signers.gateway.ss58_address,
                    signature=signatures[0],
                    path=key_paths[place],
                ),
            )
        )
    return found


def _paths(leaves: list[bytes]) -> list[list[str]]:
    return [[node.hex() for node in path] for path in merkle.paths(leaves)]
