"""``reliquary bench audit [--quick]``: cheats on real generations, and the tokens to find them."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from miner.engines.base import EngineError
from protocol.messages import EngineName
from protocol.repository import read_facts
from protocol.sampling import Sampling
from scoring.profile import Profile
from scoring.published import chosen
from scripts.bench.power.cheats import (
    ENGINE_CHEATS,
    Bench,
    Honest,
    cheat,
    claimed,
    early_end,
    honest,
    mixed,
    redrawn,
    runner_up,
)
from scripts.bench.power.shown import draw_power, table
from scripts.bench.power.streams import RUNS, Power, power
from scripts.calibrate.forwards import load_forward
from scripts.calibrate.measure import Seen
from scripts.calibrate.orders import SAMPLINGS
from scripts.tiny_model import WEIGHTS

MODEL, REVISION = "reliquary/tiny-qwen3", "0" * 40
BOTH = ("T 1", "T .6, top_k 20, top_p .95")
PREFIX_TOKENS = 16_000
QUICK_CHEATS = ("four-bit-weights", "own-random-numbers")
QUICK_TOKENS, QUICK_RUNS, QUICK_SHAPE = 900, 20, (16, 4)


def command(
    engine: Annotated[EngineName, typer.Option(help="What generates.")] = "vllm",
    dtype: Annotated[str, typer.Option(help="Of the engine.")] = "bfloat16",
    validator_engine: Annotated[
        EngineName, typer.Option(help="What the validator runs.")
    ] = "transformers",
    validator_dtype: Annotated[str, typer.Option(help="Of the validator.")] = "bfloat16",
    tokens: Annotated[int, typer.Option(min=500, help="Of each cheat, and honest.")] = 40_000,
    profile: Annotated[
        Path | None, typer.Option(help="A profile in place of the published one.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for figures (JSON) and plots.")] = None,
    quick: Annotated[bool, typer.Option(help="Few cheats and tokens: a check.")] = False,
) -> None:
    """Measure how many tokens the evidence needs to find each cheat."""
    console, facts = Console(), read_facts(WEIGHTS, MODEL, REVISION)
    forward = load_forward(validator_engine, WEIGHTS, validator_dtype)
    given = None if profile is None else Profile.model_validate_json(profile.read_text())
    kinds = [*QUICK_CHEATS] if quick else [*ENGINE_CHEATS]
    bench = Bench(WEIGHTS, facts, engine, dtype, forward, BOTH, tokens)
    if quick:
        bench = replace(bench, tokens=QUICK_TOKENS, shape=QUICK_SHAPE)
    try:
        found = _measured(bench, kinds, given, QUICK_RUNS if quick else RUNS)
    except EngineError as error:
        sys.exit(f"error: {error}")
    for number, (sampling, powers) in enumerate(found.items()):
        console.print(table(sampling, powers))
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            name = f"power-{engine}-{dtype}-{validator_engine}-{number}"
            (out / f"{name}.json").write_text(
                json.dumps({cheat: asdict(one) for cheat, one in powers.items()}, indent=1)
            )
            draw_power(sampling, powers, out / f"{name}.png")
    if missed := [name for powers in found.values() for name in _missed(powers)]:
        sys.exit(f"error: not found within the tokens at hand: {', '.join(missed)}")


def _measured(
    bench: Bench, kinds: list[str], given: Profile | None, runs: int
) -> dict[str, dict[str, Power]]:
    """Return by sampling the power over each cheat by its name, honest samples first."""
    with Progress() as bar:
        task = bar.add_task("cheats", total=len(kinds) + 1 + 3 * len(bench.samplings))
        advance = partial(bar.advance, task)
        good = honest(bench)
        advance()
        stack = next(iter(good.values())).stack
        profile = given or chosen(bench.facts.model, stack, bench.forward.stack())
        found = {
            name: _claims_measured(bench, name, one, profile, runs, advance)
            for name, one in good.items()
        }
        for kind in kinds:
            for sampling, samples in cheat(bench, kind).items():
                found[sampling][ENGINE_CHEATS[kind]] = power(profile, samples, runs=runs)
            advance()
    return found


def _claims_measured(
    bench: Bench,
    name: str,
    good: Honest,
    profile: Profile,
    runs: int,
    advance: Callable[[], None],
) -> dict[str, Power]:
    """Return the power over honest samples, and over cheats' claims in their place."""
    sampling = Sampling.model_validate(SAMPLINGS[name] | {"max_tokens": 1})
    found = {"honest": power(profile, good.seen, runs=runs)}
    other = claimed(bench, good, partial(redrawn, sampling))
    advance()
    flips = claimed(bench, good, partial(runner_up, sampling))
    advance()
    ends = claimed(bench, good, partial(early_end, bench.facts.end_ids[0]))
    advance()
    for cheat_name, samples in _streams(good.seen, other, flips, ends):
        found[cheat_name] = power(profile, samples, runs=runs)
    prefix = good.seen[: max(1, PREFIX_TOKENS * len(good.seen) // bench.tokens)]
    found["wrong seed after an honest prefix"] = power(profile, other, prefix, runs)
    return found


def _streams(
    good: list[Seen], other: list[Seen], flips: list[Seen], ends: list[Seen]
) -> Iterator[tuple[str, list[Seen]]]:
    for percent in (1, 5, 20):
        yield f"{percent} % of tokens redrawn", mixed(good, other, percent / 100, percent)
    yield "5 % runner-up flips", mixed(good, flips, 0.05, 6)
    yield "an early end in 50 tokens", mixed(good, ends, 0.02, 7)
    pairs = enumerate(zip(good, other, strict=True))
    tenth = [bad if at % 10 == 0 else fine for at, (fine, bad) in pairs]
    yield "wrong seed in a tenth of samples", tenth


def _missed(found: dict[str, Power]) -> list[str]:
    """Return the cheats that no profile may let by, and that this one did."""
    sure = ("wrong seed", "wrong seed after an honest prefix")
    return [
        name for name in sure if name in found and found[name].needed[1e6].median == float("inf")
    ]


def main() -> None:
    """Read the command line and measure."""
    typer.run(command)


if __name__ == "__main__":
    main()
