"""How a role is started that is set up: by hand, by systemd, in a container."""

import shlex
from pathlib import Path

from scripts.node_setup.settings import SYSTEM_DATA, NodeRole


def by_hand(role: NodeRole, env: Path) -> str:
    """Return the one command that starts a role."""
    return f"reliquary {role} --env {shlex.quote(str(env))}"


def by_systemd(role: NodeRole, env: Path, data: Path) -> list[str]:
    """Return the commands that let systemd start a role; a line that says why where it cannot."""
    if not data.is_relative_to(SYSTEM_DATA):
        return [f"set up with --data {SYSTEM_DATA}, which is where the unit lets the {role} write"]
    unit = f"reliquary-{role}"
    return [
        f"sudo install -D -m 600 {shlex.quote(str(env))} /etc/reliquary/{role}.env",
        f"sudo cp deploy/{unit}.service /etc/systemd/system/",
        f"sudo systemctl enable --now {unit}",
    ]


def by_compose(role: NodeRole, env: Path) -> str:
    """Return the command that starts a role in a container."""
    return f"docker compose --env-file {shlex.quote(str(env))} -f deploy/{role}.compose.yml up -d"
