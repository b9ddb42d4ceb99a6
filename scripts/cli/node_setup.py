"""``setup`` of a node: ``reliquary miner setup`` and ``reliquary validator setup``."""

import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scripts.cli.failure import reported, settings_from
from scripts.cli.node_options import ChainText, Gateway, OfGateway

if TYPE_CHECKING:
    from scripts.doctor.finding import Finding
    from scripts.node_setup.setting_up import SetUp
    from scripts.node_setup.settings import Given, NodeRole

_DOES = (
    "hotkey, settings, checks, and how to start it.\n\n"
    "Asks on a terminal for what is not given. What is there already is kept."
)
Data = Annotated[
    Path | None,
    typer.Option(help="Folder of the node; /var/lib/reliquary where writable, or ~/.reliquary."),
]
Env = Annotated[Path | None, typer.Option(help="Its environment file; in --data.")]
HotkeyFile = Annotated[Path | None, typer.Option("--hotkey", help="Its hotkey file; in --data.")]
Wallet = Annotated[
    str | None, typer.Option(help="WALLET/HOTKEY of btcli to take the hotkey from; else a new one.")
]
Wallets = Annotated[
    Path | None, typer.Option(help="Folder of btcli's wallets; ~/.bittensor/wallets.")
]


def add_setup(group: typer.Typer, role: "NodeRole", computes: str, chosen: str) -> None:
    """Give a role's commands its ``setup``.

    Args:
        computes: the option by which an operator chooses what computes.
        chosen: help of that option.
    """

    @group.command("setup", help=f"Prepare this machine for a {role}: {_DOES}")
    def setup(
        chain: ChainText = None,
        data: Data = None,
        env: Env = None,
        hotkey: HotkeyFile = None,
        wallet: Wallet = None,
        wallets: Wallets = None,
        gateway: Gateway = None,
        gateway_hotkey: OfGateway = None,
        computing: Annotated[str | None, typer.Option(f"--{computes}", help=chosen)] = None,
    ) -> None:
        from scripts.node_setup.settings import Given

        set_up_node(
            Given(
                role=role,
                chain=chain,
                data=data,
                env=env,
                hotkey=hotkey,
                wallet=wallet,
                wallets=wallets,
                gateway=gateway,
                gateway_hotkey=gateway_hotkey,
                computes=computing,
            )
        )


def set_up_node(given: "Given") -> None:
    """Set a node up, look at all it needs, and say how it is started.

    The exit status is 1 where something keeps it from its work.
    """
    import asyncio

    from scripts.doctor.printed import count_broken, printed
    from scripts.node_setup.asking import Asker, SetupError
    from scripts.node_setup.setting_up import settle, write_down
    from scripts.node_setup.starting import by_compose, by_hand, by_systemd

    with reported(SetupError):
        made = settle(given, Asker(_prompt()), Path.home(), _say)
        look = _look_at(given, made)
        write_down(made, _say)
    found = asyncio.run(look)
    for line in printed(found):
        typer.echo(line)
    _say("start", by_hand(given.role, made.env))
    for line in by_systemd(given.role, made.env, made.data):
        _say("or systemd", line)
    _say("or docker", by_compose(given.role, made.env))
    broken = count_broken(found)
    if broken:
        typer.echo(f"{broken} of {len(found)} must be mended first", err=True)
        sys.exit(1)


def _prompt() -> Callable[[str, str | None], str] | None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    return lambda question, default: typer.prompt(question, default=default)


def _say(about: str, line: str) -> None:
    typer.echo(f"{about:<17} {line}")


def _look_at(given: "Given", made: "SetUp") -> "Coroutine[None, None, list[Finding]]":
    """Check the settings, and return what looks at all that the role needs.

    Raises:
        Failure: a setting is out of its range; nothing was written yet.
    """
    import time

    from scripts.doctor.roles import of_miner, of_validator
    from scripts.node_setup.settings import variable

    prefix = variable(given.role, "")
    options = {
        name.removeprefix(prefix).lower(): value
        for name, value in made.variables.items()
        if name.startswith(prefix)
    }
    if given.role == "miner":
        from miner.settings import MinerSettings

        return of_miner(settings_from(MinerSettings, options), time.time)
    from validator.settings import ValidatorSettings

    return of_validator(settings_from(ValidatorSettings, options), time.time)
