"""What a node needs of others: its hotkey, the gateway, a clock that agrees, the chain's word."""

from collections.abc import Callable
from pathlib import Path

from bittensor_core import Keypair

from protocol.client import GatewayRefused, GatewayUnavailable, NodeClient
from protocol.keys import HotkeyError, load_hotkey
from protocol.messages import WIRE_VERSION, GatewayIdentity
from scripts.doctor.finding import Finding, broken, good

# Signatures are taken from ten seconds of the past to two of the future.
BEHIND_SECONDS, AHEAD_SECONDS = 8.0, 1.5


def hotkey(path: Path) -> tuple[Finding, Keypair | None]:
    """Read a hotkey file; one that is not there yet is made at the role's first start."""
    if not path.exists():
        remedy = f"register it first: btcli, or reliquary chain register --hotkey {path}"
        return broken("hotkey", f"there is no {path}", remedy), None
    try:
        keypair = load_hotkey(path)
    except HotkeyError as error:
        return broken("hotkey", str(error), f"chmod 600 {path}, or name another file"), None
    return good("hotkey", f"{keypair.ss58_address} in {path}, mode 600"), keypair


async def gateway(
    url: str, wanted_hotkey: str | None, keypair: Keypair | None, clock: Callable[[], float]
) -> list[Finding]:
    """Ask the gateway who it is, what time it is, and whether it knows the hotkey.

    Args:
        url: its origin.
        wanted_hotkey: whose it must be, None for anybody's.
        keypair: the node's; None where it cannot be read.
        clock: seconds since the epoch.
    """
    signer = keypair or Keypair.create_from_mnemonic(Keypair.generate_mnemonic())
    async with NodeClient(url, signer, wanted_hotkey, attempts=1) as client:
        try:
            asked = clock()
            identity = await client.identity()
            answered = clock()
        except (GatewayUnavailable, GatewayRefused) as error:
            remedy = f"correct --gateway, or see whether {url} is up and not behind a firewall"
            return [broken("gateway", str(error), remedy)]
        found = [
            _identity(url, identity, wanted_hotkey),
            _clock(identity.time, asked, answered),
        ]
        if keypair is not None and all(not finding.remedy for finding in found):
            found.append(await _registration(client, keypair))
    return found


def _identity(url: str, identity: GatewayIdentity, wanted: str | None) -> Finding:
    if identity.wire_version != WIRE_VERSION:
        seen = f"{url} speaks wire version {identity.wire_version}, this node {WIRE_VERSION}"
        return broken("gateway", seen, "update the older of the two")
    if wanted not in (None, identity.hotkey):
        seen = f"{url} is {identity.hotkey}, not {wanted}"
        return broken("gateway", seen, "correct --gateway or --gateway-hotkey")
    return good("gateway", f"{identity.hotkey} at {url}, wire version {WIRE_VERSION}")


def _clock(theirs: float, asked: float, answered: float) -> Finding:
    """Compare clocks: the gateway's was read between ``asked`` and ``answered`` of this one."""
    ahead, behind = asked - theirs, theirs - answered
    if ahead > AHEAD_SECONDS or behind > BEHIND_SECONDS:
        seen = f"{max(ahead, behind):.1f} s {'ahead of' if ahead > 0 else 'behind'} the gateway's"
        return broken("clock", seen, "keep it by NTP: timedatectl set-ntp true")
    return good("clock", "agrees with the gateway's")


async def _registration(client: NodeClient, keypair: Keypair) -> Finding:
    address = keypair.ss58_address
    try:
        await client.demand()
    except GatewayUnavailable as error:
        return broken("registration", str(error), "try again shortly")
    except GatewayRefused as error:
        if error.code != "not_registered":
            return broken("registration", str(error), "see docs/wire.md for this code")
        remedy = "register it on the subnet, or wait a block where it was just done"
        return broken("registration", f"{address} is not registered", remedy)
    return good("registration", f"{address} is registered, and its signature is taken")
