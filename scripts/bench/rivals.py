"""``reliquary bench rivals``: other checks of sampling beside this audit, on the same logits.

A miner computes in float32, the validator in bfloat16, and each position of honest text is drawn
anew under the miner's logits. Three checks look at what was drawn: whether it is what the validator
would have drawn from a shared uniform number by inversion of the distribution (*inverse CDF*);
whether it is what the validator would have drawn from shared Gumbel noise (*match rate*); and this
audit, which asks how far a token is from being drawn. All are calibrated on the same honest tokens,
at the same confidence. For the rivals the figure is what no test over matches gets below, even one
that knows beforehand how often the cheat fails to match.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.stats import beta

from miner.engines.base import ENGINE_FACTORIES, make_engine
from protocol.documents import work_keys
from protocol.draw.key import key_words
from protocol.draw.numba_form import draw_rows
from protocol.draw.reference import kept
from protocol.messages import Work
from protocol.repository import read_facts
from protocol.sampling import Sampling
from scoring.entropy import entropies
from scoring.margin_numba import judge_rows
from scoring.profile import Side
from scoring.published import side_of
from scripts.bench.power.cheats import SALT, Bench, honest
from scripts.bench.power.streams import power
from scripts.calibrate.making import Origin, make_profile
from scripts.calibrate.measure import PACK_TOKENS, Seen
from scripts.cheats.weights import EightBitWeights, FourBitWeights, OtherWeights
from scripts.tiny_model import WEIGHTS
from validator.forward import Claim, Forward
from validator.transformers_forward import load

MODEL, REVISION = "reliquary/tiny-qwen3", "0" * 40
SAMPLINGS = ("T 1", "T .6, top_k 20, top_p .95")
BOUND = 1e6
CONFIDENCE = 0.99
REDRAWN = 0.05

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Positions:
    """Positions of samples one after another: [N] each, and where each sample ends.

    Attributes:
        due: the validator's logits [N, V]; ``miner`` the honest miner's, others by their cheat.
        keys, places: what the draw of each takes.
        uniform: the shared number of inversion.
        redrawn: whether a cheat of the draw alone falsifies it.
    """

    sampling: Sampling
    due: Rows
    miner: dict[str, Rows]
    keys: NDArray[np.uint32]
    places: NDArray[np.uint32]
    uniform: NDArray[np.float64]
    redrawn: NDArray[np.bool_]
    ends: NDArray[np.int64]


def main() -> None:
    """Read the command line and measure."""
    typer.run(command)


def command(
    tokens: Annotated[int, typer.Option(min=1_000, help="Honest tokens a sampling.")] = 20_000,
) -> None:
    """Measure inverse-CDF and match-rate checks beside this audit."""
    validator, miners = load(WEIGHTS, "bfloat16"), _miners()
    facts = read_facts(WEIGHTS, MODEL, REVISION)
    bench = Bench(WEIGHTS, facts, "transformers", "float32", validator, SAMPLINGS, tokens)
    for name, found in honest(bench).items():
        sampling = found.works[0][0].sampling
        positions = _positions(sampling, found.works, validator, miners)
        Console().print(_table(name, positions, side_of(found.stack), side_of(validator.stack())))


def _miners() -> dict[str, Forward]:
    """Return the miner's models: the ordered one, and the cheaper ones."""
    found: dict[str, Forward] = {"honest": load(WEIGHTS, "float32")}
    cheats: dict[str, type[OtherWeights]] = {
        "4-bit weights": FourBitWeights,
        "8-bit weights": EightBitWeights,
    }
    for name, kind in cheats.items():
        cheat = kind(make_engine(ENGINE_FACTORIES["transformers"]))
        found[name] = load(cheat.model_folder(WEIGHTS), "float32")
        cheat.close()
    return found


def _positions(
    sampling: Sampling,
    works: Sequence[tuple[Work, list[list[int]]]],
    validator: Forward,
    miners: dict[str, Forward],
) -> Positions:
    due: list[Rows] = []
    miner: dict[str, list[Rows]] = {name: [] for name in miners}
    keys: list[NDArray[np.uint32]] = []
    counts: list[int] = []
    for work, samples in track(works, "teacher forcing", transient=True):
        claims = [Claim(s.prompt, ids) for s, ids in zip(work.samples, samples, strict=True)]
        due.append(_logits(validator, work, claims))
        for name, forward in miners.items():
            miner[name].append(_logits(forward, work, claims))
        lengths = [len(ids) for ids in samples]
        words = np.array([key_words(key) for key in work_keys(work)], dtype=np.uint32)
        keys.append(np.repeat(words, lengths, axis=0))
        counts += lengths
    numbers = np.random.default_rng(1)
    total = sum(counts)
    return Positions(
        sampling,
        np.concatenate(due),
        {name: np.concatenate(parts) for name, parts in miner.items()},
        np.concatenate(keys),
        np.concatenate([np.arange(count, dtype=np.uint32) for count in counts]),
        numbers.random(total),
        numbers.random(total) < REDRAWN,
        np.cumsum(counts),
    )


def _logits(forward: Forward, work: Work, claims: Sequence[Claim]) -> Rows:
    """Return the logits of every position of every claim, in their order [N, V]."""
    starts = np.cumsum([0, *(len(claim.ids) for claim in claims)])
    found = np.empty((starts[-1], work.vocabulary_size), np.float32)
    for rows in forward.hidden(work.prompts, claims, PACK_TOKENS):
        logits = forward.logits(rows.hidden)[:, : work.vocabulary_size]
        found[starts[rows.claims] + rows.places] = logits.cpu()
    return found


Draw = Callable[[Positions, Rows, Sampling, bool], NDArray[np.int64]]


def _by_noise(
    positions: Positions, logits: Rows, sampling: Sampling, other: bool
) -> NDArray[np.int64]:
    """Draw by Gumbel noise; under another key where ``other``."""
    rows = len(logits)
    return draw_rows(
        logits,
        positions.keys ^ SALT if other else positions.keys,
        positions.places,
        np.full(rows, sampling.temperature),
        np.full(rows, sampling.top_k),
        np.full(rows, sampling.top_p),
        np.full(rows, sampling.min_p),
        logits.shape[1],
    )


def _by_inversion(
    positions: Positions, logits: Rows, sampling: Sampling, other: bool
) -> NDArray[np.int64]:
    """Draw where the distribution passes the uniform number; another one where ``other``."""
    uniform = positions.uniform[::-1] if other else positions.uniform
    found = np.empty(len(logits), np.int64)
    for at, (row, number) in enumerate(zip(logits, uniform, strict=True)):
        scaled = (row.astype(np.float64) - row.max()) / sampling.temperature
        mass = np.cumsum(np.where(kept(row, sampling), np.exp(scaled), 0.0))
        found[at] = np.searchsorted(mass, number * mass[-1], side="right")
    return found


def _claims(positions: Positions, draw: Draw) -> dict[str, NDArray[np.int64]]:
    """Return what is claimed at every position, honestly and by each cheat."""
    sampling, logits = positions.sampling, positions.miner["honest"]
    found = {name: draw(positions, rows, sampling, False) for name, rows in positions.miner.items()}
    warmer = sampling.model_copy(update={"temperature": sampling.temperature + 0.1})
    found["temperature +.1"] = draw(positions, logits, warmer, False)
    other = draw(positions, logits, sampling, True)
    found["5 % of tokens redrawn"] = np.where(positions.redrawn, other, found["honest"])
    found["wrong seed"] = other
    return found


def _table(name: str, positions: Positions, miner: Side, validator: Side) -> Table:
    """Return the figures of all three checks; the first half of the samples calibrates them."""
    table = Table(title=f"{name}: tokens until E = {BOUND:.0e}")
    table.add_column("claimed")
    for heading in ("inverse CDF differs", "at best", "match rate differs", "at best", "margins"):
        table.add_column(heading, justify="right")
    split = len(positions.ends) // 2
    calibration = int(positions.ends[split - 1])
    inverted, noised = _claims(positions, _by_inversion), _claims(positions, _by_noise)
    rivals = [
        _differences(positions, _by_inversion, inverted),
        _differences(positions, _by_noise, noised),
    ]
    seen = {cheat: _seen(positions, ids) for cheat, ids in noised.items()}
    profile = make_profile(seen["honest"][:split], Origin(MODEL, miner, validator, "", MODEL))
    for cheat in seen:
        cells: list[str] = []
        for differs in rivals:
            bound = _upper(int(differs["honest"][:calibration].sum()), calibration)
            rate = float(differs[cheat][calibration:].mean())
            cells += [f"{100 * rate:.2f} %", _shown(_at_best(rate, bound))]
        needed = power(profile, seen[cheat][split:]).needed[BOUND]
        table.add_row(cheat, *cells, _shown(needed.median))
    return table


def _differences(
    positions: Positions, draw: Draw, claims: dict[str, NDArray[np.int64]]
) -> dict[str, NDArray[np.bool_]]:
    """Return where claims are not what the validator draws."""
    due = draw(positions, positions.due, positions.sampling, False)
    return {cheat: ids != due for cheat, ids in claims.items()}


def _seen(positions: Positions, claimed: NDArray[np.int64]) -> list[Seen]:
    """Return what the audit sees of claims, by sample."""
    sampling, due = positions.sampling, positions.due
    drawn, margins = judge_rows(
        due, claimed, positions.keys, positions.places, sampling, due.shape[1]
    )
    own = entropies(due, sampling.temperature)
    parts = np.split(np.arange(len(due)), positions.ends[:-1])
    return [Seen(margins[part], own[part], drawn[part] != claimed[part]) for part in parts]


def _upper(count: int, tokens: int) -> float:
    """Return the upper confidence bound of a rate (Clopper and Pearson)."""
    return float(beta.ppf(CONFIDENCE, count + 1, tokens - count))


def _at_best(rate: float, bound: float) -> float:
    """Return the tokens until the best test of a rate above ``bound`` passes E, on average."""
    if rate <= bound:
        return math.inf
    rest = (1 - rate) * math.log((1 - rate) / (1 - bound)) if rate < 1 else 0.0
    return math.log(BOUND) / (rate * math.log(rate / bound) + rest)


def _shown(tokens: float) -> str:
    return "never" if tokens == math.inf else f"{tokens:,.0f}"


if __name__ == "__main__":
    main()
