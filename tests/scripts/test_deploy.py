"""The operators' files say what the roles really take."""

import re
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from gateway.settings import GatewaySettings
from miner.settings import MinerSettings
from scripts.cli.app import app
from validator.settings import ValidatorSettings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SETTINGS = {"gateway": GatewaySettings, "miner": MinerSettings, "validator": ValidatorSettings}


def variables() -> dict[str, str]:
    """What ``.env.example`` sets, what is commented out included."""
    lines = (DEPLOY / ".env.example").read_text().splitlines()
    matches = [re.fullmatch(r"(?:# )?([A-Z_]+)=(\S+)", line) for line in lines]
    return {match[1]: match[2] for match in matches if match}


@pytest.mark.parametrize("role", SETTINGS)
def test_each_variable_is_a_setting_with_a_value_that_it_takes(
    role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = f"RELIQUARY_{role.upper()}_"
    given = {name: value for name, value in variables().items() if name.startswith(prefix)}
    assert given
    for name, value in given.items():
        assert name.removeprefix(prefix).lower() in SETTINGS[role].model_fields
        monkeypatch.setenv(name, value)
    SETTINGS[role]()


@pytest.mark.parametrize("role", SETTINGS)
def test_a_compose_file_starts_its_role(role: str) -> None:
    composed = yaml.safe_load((DEPLOY / f"{role}.compose.yml").read_text())
    service = composed["services"][role]
    assert service["command"] == [role]
    assert (DEPLOY / service["build"]["dockerfile"].removeprefix("deploy/")).exists()
    extras = service["build"]["args"]["EXTRAS"].split(",")
    declared = (ROOT / "pyproject.toml").read_text()
    assert all(re.search(rf"^{extra} = \[", declared, re.MULTILINE) for extra in extras)
    assert [volume.split(":")[0] for volume in service["volumes"]] == list(composed["volumes"])


@pytest.mark.parametrize("role", SETTINGS)
def test_a_unit_runs_commands_that_exist(role: str) -> None:
    unit = (DEPLOY / f"reliquary-{role}.service").read_text()
    started = re.findall(r"^ExecStart(?:Pre)?=\S+/reliquary (.+)$", unit, re.MULTILINE)
    assert started == [f"doctor {role}", role]
    for words in started:
        command = get_command(app)
        for word in words.split():
            command = command.commands[word]


def test_what_is_needed_at_least_is_said_of_every_role() -> None:
    needs = yaml.safe_load((DEPLOY / "min_compute.yml").read_text())
    assert set(needs) == {"version", *SETTINGS}
    for role in ("miner", "validator"):
        assert needs[role]["gpu"]["memory_gb"] >= 24
