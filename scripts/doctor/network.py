"""What a node needs of the gateway: that it is there, agrees on the time, and takes its word."""

from collections.abc import Callable

from bittensor_core import Keypair

from protocol.client import GatewayRefused, GatewayUnavailable, NodeClient
from protocol.messages import WIRE_VERSION, Demand, GatewayIdentity
from scripts.doctor.finding import Finding, broken, good

# Signatures are taken from ten seconds of the past to two of the future.
BEHIND_SECONDS, AHEAD_SECONDS = 8.0, 1.5


async def gateway(
    url: str, wanted_hotkey: str | None, keypair: Keypair | None, clock: Callable[[], float]
) -> tuple[list[Finding], list[Demand]]:
    """Ask the gateway who it is, what time it is, whether it knows the hotkey, and what waits.

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
            return [broken("gateway", str(error), remedy)], []
        found = [
            _identity(url, identity, wanted_hotkey),
            _clock(identity.time, asked, answered),
        ]
        if keypair is None or any(finding.remedy for finding in found):
            return found, []
        finding, demands = await _admission(client, keypair)
    return [*found, finding], demands


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


async def _admission(client: NodeClient, keypair: Keypair) -> tuple[Finding, list[Demand]]:
    address = keypair.ss58_address
    try:
        board = await client.demand()
    except GatewayUnavailable as error:
        return broken("admission", str(error), "try again shortly"), []
    except GatewayRefused as error:
        if error.code != "not_registered":
            return broken("admission", str(error), "see docs/wire.md for this code"), []
        seen = f"the gateway does not find {address} on its chain"
        remedy = "register it on the subnet, or wait a block where it was just done"
        return broken("admission", seen, remedy), []
    return good("admission", f"the gateway takes the signature of {address}"), board.demands
