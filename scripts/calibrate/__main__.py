"""``reliquary calibrate``: generate honestly, audit, write a profile and its picture."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from miner.engines.base import EngineError
from protocol.messages import EngineName
from protocol.repository import RepositoryError, download, read_facts, resolve_revision
from scoring.profile import MIN_STRATUM_TOKENS, Profile
from scoring.published import side_of
from scripts.calibrate.forwards import load_forward
from scripts.calibrate.generate import honest
from scripts.calibrate.making import Origin, make_profile
from scripts.calibrate.picture import draw_profile
from validator.forward import ForwardFailed, UnsupportedModel


def command(
    model: Annotated[str, typer.Option(help="org/name on the hub.")],
    engine: Annotated[EngineName, typer.Option(help="What the miner runs.")],
    out: Annotated[Path, typer.Option(help="The profile, JSON; its picture lies beside it.")],
    dtype: Annotated[str, typer.Option(help="Of the miner's engine.")] = "auto",
    validator_engine: Annotated[
        EngineName, typer.Option(help="What the validator runs.")
    ] = "transformers",
    validator_dtype: Annotated[
        str | None, typer.Option(help="Of the validator; the repository's own by default.")
    ] = None,
    revision: Annotated[str, typer.Option(help="Branch or commit.")] = "main",
    folder: Annotated[
        Path | None, typer.Option(help="A snapshot that lies here already, in place of the hub.")
    ] = None,
    family: Annotated[
        str | None, typer.Option(help="Pattern of the models it holds for; the model by default.")
    ] = None,
    exact: Annotated[
        bool, typer.Option(help="It holds for these very builds and kernels alone.")
    ] = False,
    tokens: Annotated[int, typer.Option(min=1_000, help="Honest tokens to see.")] = 1_000_000,
) -> None:
    """Measure what margins honest miners of a stack show before this machine's validator."""
    try:
        commit = "0" * 40 if folder else resolve_revision(model, revision)
        place = folder or download(model, commit, weights=True)
        facts = read_facts(place, model, commit)
        forward = load_forward(validator_engine, place, validator_dtype)
        with Progress() as bar:
            task = bar.add_task(f"{engine} {dtype}", total=tokens)
            stack, samples = asyncio.run(
                honest(place, facts, engine, dtype, forward, tokens, lambda n: bar.advance(task, n))
            )
    except (RepositoryError, EngineError, ForwardFailed, UnsupportedModel) as error:
        sys.exit(f"error: {error}")
    origin = Origin(
        family=family or model,
        miner=side_of(stack, exact),
        validator=side_of(forward.stack(), exact),
        measured=datetime.now(UTC).date().isoformat(),
        model=model,
    )
    profile = make_profile(samples, origin)
    out.write_text(profile.model_dump_json(indent=1) + "\n")
    draw_profile(profile, out.with_suffix(".png"))
    _show(profile, out)


def _show(profile: Profile, out: Path) -> None:
    table = Table(title=f"{profile.tokens:,} honest tokens")
    for heading in ("entropy below", "tokens", "margin > 0", "> .0625", "> .5", "lift"):
        table.add_column(heading, justify="right")
    for stratum in profile.strata:
        edge = stratum.entropy_below_micro
        shares = [sum(stratum.counts[first:]) / stratum.tokens for first in (1, 7, 10)]
        table.add_row(
            "" if edge is None else f"{edge / 1e6:.3f}",
            f"{stratum.tokens:,}",
            *(f"{100 * share:.4f} %" for share in shares),
            f"{stratum.lift_percent / 100:.2f}",
        )
    console = Console()
    console.print(table)
    console.print(f"profile {profile.digest[:16]} in {out}, picture beside it")
    if not profile.convicts:
        console.print(
            f"It voids samples but convicts nobody: a stratum has fewer than "
            f"{MIN_STRATUM_TOKENS:,} tokens. Measure more with --tokens."
        )


def main() -> None:
    """Read the command line and measure."""
    typer.run(command)


if __name__ == "__main__":
    main()
