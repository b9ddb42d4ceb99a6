"""``reliquary bench``: the measurements in ``docs/benchmarks.md``; each shows its options."""

from typing import Annotated, Literal

import typer

from scripts.cli.forward import REST, forward

bench = typer.Typer(help="Measure what docs/benchmarks.md states.", no_args_is_help=True)


@bench.command("draw")
def draw(
    quick: Annotated[bool, typer.Option(help="Fewer rows and rounds: a look, no figure.")] = False,
    device: Annotated[Literal["cpu", "cuda"], typer.Option(help="Where the logits lie.")] = "cpu",
) -> None:
    """Measure the draw alone at a large vocabulary, beside the sampler it replaces."""
    from scripts.bench.draw import run

    run(quick, device)


@bench.command("decode", context_settings=REST)
def decode(context: typer.Context) -> None:
    """Measure decoding with the draw against vLLM's own sampler."""
    forward("scripts.bench.decode", context)


@bench.command("audit-speed", context_settings=REST)
def audit_speed(context: typer.Context) -> None:
    """Measure audit speed against generation speed, and the validator's peak memory."""
    forward("scripts.bench.audit_speed", context)


@bench.command("honest", context_settings=REST)
def honest(context: typer.Context) -> None:
    """Audit honest samples of both engines: how many differ from the draw, how many are void."""
    forward("scripts.bench.honest", context)


@bench.command("audit", context_settings=REST)
def audit(context: typer.Context) -> None:
    """Measure how many tokens the evidence needs to find each cheat."""
    forward("scripts.bench.power.__main__", context)


@bench.command("rivals", context_settings=REST)
def rivals(context: typer.Context) -> None:
    """Measure other checks of sampling beside the audit, on the same logits."""
    forward("scripts.bench.rivals", context)


@bench.command("verify")
def verify(
    quick: Annotated[bool, typer.Option(help="Small deliveries: a look, no figure.")] = False,
) -> None:
    """Measure how long the check of a delivery takes, and how much memory."""
    from scripts.bench.verify import run

    run(quick)


@bench.command("intake", context_settings=REST)
def intake(context: typer.Context) -> None:
    """Measure what creating large batches costs, holds and keeps waiting."""
    forward("scripts.bench.intake.__main__", context)


@bench.command("export", context_settings=REST)
def export(context: typer.Context) -> None:
    """Measure the memory that writing a large delivery takes, in every format."""
    forward("scripts.bench.export.__main__", context)


@bench.command("incentives", context_settings=REST)
def incentives(context: typer.Context) -> None:
    """Simulate miners of every strategy over weeks: what each earns beside an honest one."""
    forward("scripts.bench.incentives.__main__", context)


@bench.command("swarm", context_settings=REST)
def swarm(context: typer.Context) -> None:
    """Run 200 miners and 20 validators that fake the model against one gateway."""
    forward("scripts.bench.swarm.__main__", context)
