"""``reliquary batch``: a customer's batch from a file to a verified delivery."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from scripts.cli.failure import WRONG_USE, Failure, reported

if TYPE_CHECKING:
    from scripts.batch.access import Access
    from scripts.batch.gateway import Gateway
    from scripts.batch.record import RunRecord

batch = typer.Typer(help="Order files and get verified answers.", no_args_is_help=True)

BaseUrl = Annotated[
    str | None, typer.Option(envvar="RELIQUARY_BASE_URL", help="As the openai client takes it.")
]
ApiKey = Annotated[str | None, typer.Option(envvar="RELIQUARY_API_KEY", help="Of your account.")]
EnvFile = Annotated[
    Path | None,
    typer.Option("--env", help="File with base URL and key; reliquary.env where it is found."),
]
BatchId = Annotated[str, typer.Argument(help="batch_...")]


@batch.command("run")
def run(
    file: Annotated[Path, typer.Argument(help="A batch file, one request a line.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the delivery; by default beside FILE.")
    ] = None,
    parquet: Annotated[
        bool, typer.Option("--parquet", help="Deliver Parquet instead of OpenAI's JSONL.")
    ] = False,
    model: Annotated[
        str | None, typer.Option(help="org/name; by default what the first line names.")
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="Full commit of the model; by default what main names.")
    ] = None,
    grader: Annotated[
        str | None, typer.Option(help="boxed_math_v1 or exact_match_v1: grade the answers.")
    ] = None,
    window: Annotated[str, typer.Option(help="24h to 168h.")] = "24h",
    max_price: Annotated[
        str | None, typer.Option(help="USD; a higher price is not ordered, a lower one not asked.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Order at any price, without asking.")] = False,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    env: EnvFile = None,
) -> None:
    """Order FILE, wait, fetch the delivery and verify it.

    Shows the price and asks before anything is ordered. Stopped at any time, the same command goes
    on where it was.
    """
    from scripts.batch.gateway import BatchError
    from scripts.batch.run import run as run_batch
    from scripts.batch.screen import TerminalScreen, console
    from scripts.fetch import FetchError

    if not file.is_file():
        raise Failure(f"{file}: {'is no file' if file.exists() else 'No such file'}")
    folder = out or file.with_name(f"{file.stem}-delivery")
    ceiling = None if max_price is None else _usd(max_price)
    output_format: Literal["parquet", "openai_jsonl"] = "parquet" if parquet else "openai_jsonl"
    with reported(BatchError, FetchError, OSError), _resumable(folder):
        access = _access(base_url, api_key, env)
        asked = _asked(access, file, model, revision, output_format, grader, window, folder)
        screen = TerminalScreen(console(), lambda price: _accepts(price, ceiling, yes))
        with screen.shown():
            order = run_batch(access, file, folder, asked, screen)
    _verify(folder, file, f"{asked.model}@{asked.revision}")
    typer.echo(f"\n{order['batch_id']} is {order['state']}: {folder}")
    _show_evaluation(order)
    typer.echo(f"charged {order['charged_usd']} USD of {order['price_usd']} USD reserved")
    _show_failed(order["progress"], folder, file)


@batch.command("retry")
def retry(
    source: Annotated[str, typer.Argument(help="A delivery's folder, or batch_...")],
    input_file: Annotated[Path, typer.Option("--input", help="The file that you ordered.")],
    out: Annotated[
        Path | None, typer.Option(help="The new file; by default beside the old one.")
    ] = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    env: EnvFile = None,
) -> None:
    """Write a file of the lines that a batch left short of samples, to order it again.

    Refused lines, which would be refused again, are listed apart.
    """
    from scripts.batch.delivered import ended_in, ended_order
    from scripts.batch.gateway import BatchError
    from scripts.batch.retrying import lines_to_retry

    path = out or input_file.with_name(f"{input_file.stem}-retry.jsonl")
    with reported(BatchError, OSError):
        if Path(source).is_dir():
            ended = ended_in(Path(source))
        else:
            with _gateway(_access(base_url, api_key, env)) as gateway:
                ended = ended_order(gateway, source)
        found = lines_to_retry(input_file, ended.errors)
        for entry in found.refused:
            error, name = entry["error"], entry["custom_id"] or "no custom_id"
            typer.echo(
                f"refused: line {entry['line']} ({name}): {error['code']}: {error['message']}"
            )
        if not found.lines:
            typer.echo("no line is short of samples: nothing to order again")
            return
        try:
            with path.open("xb") as file:
                file.writelines(found.lines)
        except FileExistsError as error:
            raise BatchError(f"{path} exists already; choose another --out") from error
    command = f"reliquary batch run {path}{ended.options}"
    typer.echo(f"{path}: {len(found.lines):,} lines; order them: {command}")


@batch.command("list")
def list_(
    limit: Annotated[int, typer.Option(min=1, max=100)] = 20,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    env: EnvFile = None,
) -> None:
    """List your batches, newest first."""
    from scripts.batch.gateway import BatchError
    from scripts.cli.stored import print_table, shown_time

    with reported(BatchError), _gateway(_access(base_url, api_key, env)) as gateway:
        orders = gateway.get(f"/dataset-orders?limit={limit}")["data"]
    rows = [
        (
            order["batch_id"],
            order["state"],
            shown_time(order["created_at"] * 1000),
            f"{order['progress']['lines_completed']}/{order['progress']['lines_total']}",
            order["charged_usd"],
            order["model"],
        )
        for order in orders
    ]
    print_table(("BATCH", "STATE", "CREATED", "LINES", "CHARGED USD", "MODEL"), rows)


@batch.command("show")
def show(
    batch_id: BatchId, base_url: BaseUrl = None, api_key: ApiKey = None, env: EnvFile = None
) -> None:
    """Show a batch as JSON, with its money, progress and deliveries."""
    import json

    from scripts.batch.delivered import order_id_of
    from scripts.batch.gateway import BatchError

    with reported(BatchError), _gateway(_access(base_url, api_key, env)) as gateway:
        order = gateway.get(f"/dataset-orders/{order_id_of(batch_id)}")
    typer.echo(json.dumps(order, indent=2))


@batch.command("cancel")
def cancel(
    batch_id: BatchId, base_url: BaseUrl = None, api_key: ApiKey = None, env: EnvFile = None
) -> None:
    """Cancel a batch; what was verified of it is delivered and charged."""
    from scripts.batch.delivered import order_id_of
    from scripts.batch.gateway import BatchError

    with reported(BatchError), _gateway(_access(base_url, api_key, env)) as gateway:
        order = gateway.call("POST", f"/dataset-orders/{order_id_of(batch_id)}/cancel")
    typer.echo(f"{order['batch_id']} is {order['state']}")


def _access(base_url: str | None, api_key: str | None, env: Path | None) -> "Access":
    from scripts.batch.access import find_access, use_hub
    from scripts.fetch import tell_of_no_try

    tell_of_no_try()
    access = find_access(base_url, api_key, env)
    # Of a network of one's own, whose model is nowhere else.
    use_hub(access.hub)
    return access


def _gateway(access: "Access") -> "Gateway":
    from scripts.batch.gateway import Gateway

    return Gateway(access.base_url, access.api_key)


def _asked(
    access: "Access",
    file: Path,
    model: str | None,
    revision: str | None,
    output_format: Literal["parquet", "openai_jsonl"],
    grader: str | None,
    window: str,
    folder: Path,
) -> "RunRecord":
    """Return what a run is asked for; a run that was begun keeps the commit that it pinned."""
    from protocol.repository import RepositoryError, resolve_revision
    from scripts.batch.gateway import BatchError
    from scripts.batch.lines import first_model
    from scripts.batch.record import RunRecord
    from scripts.batch.upload import hash_of
    from scripts.fetch import gateway_root

    digest = hash_of(file)
    name = model or first_model(file)
    if name is None:
        raise BatchError("the first line names no model; name it with --model")
    begun = RunRecord.read(folder)
    if revision is None and begun is not None:
        revision = begun.revision
    if revision is None:
        try:
            revision = resolve_revision(name)
        except RepositoryError as error:
            raise BatchError(f"--revision is needed: {error}") from error
    return RunRecord(
        origin=gateway_root(access.base_url),
        file_sha256=digest,
        model=name,
        revision=revision,
        output_format=output_format,
        grader=grader,
        completion_window=window,
    )


def _usd(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal(-1)
    if not value.is_finite() or value < 0:
        raise Failure(f"--max-price: {text!r} is no price in USD, such as 2.50", WRONG_USE)
    return value


def _accepts(price: Decimal, ceiling: Decimal | None, yes: bool) -> bool:
    """Say whether a price may be ordered, asking where somebody can be asked."""
    if ceiling is not None:
        if price > ceiling:
            raise Failure(f"the price is above --max-price {ceiling}; nothing was ordered")
        return True
    if yes:
        return True
    if not sys.stdin.isatty():
        raise Failure("nobody can be asked here; accept the price with --yes or --max-price")
    return typer.confirm("Order it?", err=True)


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Tell on Ctrl-C how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        print(
            "\nreliquary: stopped; an order that was placed goes on. The same command goes on with "
            f"it, as {folder} keeps the run; reliquary batch cancel ends it.",
            file=sys.stderr,
        )
        raise


def _verify(folder: Path, file: Path, model: str) -> None:
    from scripts.cli.verify import verify

    verify(folder, file, model=model)


def _show_failed(progress: dict[str, int], folder: Path, file: Path) -> None:
    total, refused = progress["lines_total"], progress["lines_refused"]
    short = total - refused - progress["lines_completed"]
    if refused:
        typer.echo(f"refused {refused:,} of {total:,} lines; its errors files say why")
    if short:
        again = f"reliquary batch retry {folder} --input {file}"
        typer.echo(f"short of samples {short:,} of {total:,} lines; {again} makes a file of them")


def _show_evaluation(order: dict[str, Any]) -> None:
    evaluation = order.get("evaluation")
    if evaluation:
        typer.echo(
            f"{evaluation['grader']}: pass@1 {evaluation['pass_at_1']} over "
            f"{evaluation['lines_graded']:,} lines"
        )
