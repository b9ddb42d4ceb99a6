"""``reliquary verify``: a delivery checked by its customer, offline."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scripts.cli.failure import WRONG_USE, Failure, reported

if TYPE_CHECKING:
    from scripts.verify.check import Progress


def verify(
    delivery: Annotated[
        Path, typer.Argument(help="The delivery's folder, as `reliquary fetch` makes it.")
    ],
    input_file: Annotated[Path, typer.Option("--input", help="The file that you ordered.")],
    gateway_hotkey: Annotated[
        str | None, typer.Option(help="The hotkey that the gateway must have signed with.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="What you ordered, NAME or NAME@COMMIT.")
    ] = None,
    validator_hotkeys: Annotated[
        list[str] | None,
        typer.Option(
            help="A hotkey that may have judged; may be repeated, or hold several, ',' between."
        ),
    ] = None,
    model_folder: Annotated[
        Path | None,
        typer.Option(help="Your own copy of the model; the pinned commit from the hub."),
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Draw every token again on the model; needs torch.")
    ] = False,
) -> None:
    """Check a delivery against your own file: prompts, signatures, text, counts; no network needed.

    Only the pinned model's tokenizer is fetched where it is not there yet. Exit status: 0 all
    holds, 1 something does not (the first is named), 2 it cannot be checked.
    """
    for path, name in ((delivery, "the delivery"), (model_folder, "--model-folder")):
        if path is not None and not path.is_dir():
            raise Failure(f"{name}: {path} is no folder", WRONG_USE)
    _look_up_at_own_hub(delivery)
    try:
        from scripts.verify.audit import audit_again
        from scripts.verify.check import verify as check
        from scripts.verify.discrepancy import Discrepancy, Uncheckable
        from scripts.verify.report import Assurance, summary
    except ModuleNotFoundError as error:
        hint = "pip install '.[customer]' brings what renders prompts"
        raise Failure(f"{error.name} is not installed; {hint}", WRONG_USE) from error

    validators = _hotkeys(validator_hotkeys)
    try:
        with _progress() as progress:
            report = check(
                delivery,
                input_file,
                gateway=gateway_hotkey,
                model=model,
                validators=validators,
                own_model=model_folder,
                progress=progress,
            )
        audited = audit_again(delivery, report.statement, model_folder) if audit else None
    except Discrepancy as found:
        typer.echo(f"DOES NOT HOLD: {found}")
        sys.exit(1)
    except Uncheckable as error:
        raise Failure(f"cannot be checked: {error}", WRONG_USE) from error
    assurance = Assurance(
        gateway_given=gateway_hotkey is not None,
        model_given=model is not None,
        validators_given=validators is not None,
        audited=audited,
    )
    for line in summary(report, assurance):
        typer.echo(line)
    typer.echo("\nALL HOLDS.")


def _look_up_at_own_hub(delivery: Path) -> None:
    """Take the model of a network of one's own from its hub, as the working folder's file says."""
    from scripts.batch.access import find_hub, use_hub
    from scripts.batch.gateway import BatchError

    # What came with a delivery says nothing of where its model is.
    if delivery.resolve() not in (Path.cwd(), *Path.cwd().parents):
        with reported(BatchError):
            use_hub(find_hub())


def _hotkeys(options: list[str] | None) -> frozenset[str] | None:
    given = {hotkey.strip() for option in options or [] for hotkey in option.split(",")} - {""}
    return frozenset(given) or None


@contextmanager
def _progress() -> "Iterator[Progress | None]":
    """Show a bar on standard error where somebody looks at it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("checking lines", total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield show
