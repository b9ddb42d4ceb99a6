"""The operators' files say what the roles really take."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from gateway.settings import GatewaySettings
from miner.settings import MinerSettings
from scripts.cli.app import app
from scripts.doctor import memory
from scripts.node_setup import settings as setup_settings
from scripts.node_setup.settings import NodeRole
from scripts.node_setup.starting import by_compose, by_systemd
from validator.settings import ValidatorSettings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SETTINGS = {"gateway": GatewaySettings, "miner": MinerSettings, "validator": ValidatorSettings}
NODES: tuple[NodeRole, ...] = ("miner", "validator")


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
    unset = [filled_in(volume, {}).split(":")[0] for volume in service["volumes"]]
    assert unset == list(composed["volumes"])


@pytest.mark.parametrize("role", NODES)
def test_a_nodes_compose_file_reads_what_setup_writes(role: NodeRole) -> None:
    text = (DEPLOY / f"{role}.compose.yml").read_text()
    written = {setup_settings.ENV_FILE, setup_settings.DATA, setup_settings.USER}
    assert set(re.findall(r"\$\{(\w+)", text)) == written <= variables().keys()
    values = {
        setup_settings.ENV_FILE: "/srv/node/miner.env",
        setup_settings.DATA: "/srv/node",
        setup_settings.USER: "1001:1001",
    }
    service = yaml.safe_load(filled_in(text, values))["services"][role]
    assert service["env_file"] == "/srv/node/miner.env"
    # The paths in the file hold inside as well.
    assert service["volumes"] == ["/srv/node:/srv/node"]
    assert service["user"] == "1001:1001"
    assert f"-f deploy/{role}.compose.yml" in by_compose(role, Path("/srv/node/miner.env"))


def filled_in(text: str, values: dict[str, str]) -> str:
    """Return a compose text with its variables' values, or what it has for those that are unset."""
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: values.get(found[1], found[2]), text)


@pytest.mark.parametrize("role", SETTINGS)
def test_a_unit_runs_commands_that_exist(role: str) -> None:
    unit = (DEPLOY / f"reliquary-{role}.service").read_text()
    started = re.findall(r"^ExecStart(?:Pre)?=\S+/reliquary (.+)$", unit, re.MULTILINE)
    assert started == [f"doctor {role}", role]
    for words in started:
        command = get_command(app)
        for word in words.split():
            command = command.commands[word]


@pytest.mark.parametrize("role", NODES)
def test_what_setup_says_of_systemd_fits_the_unit(role: NodeRole) -> None:
    unit = (DEPLOY / f"reliquary-{role}.service").read_text()
    data = setup_settings.SYSTEM_DATA
    install, copy, enable = by_systemd(role, data / f"{role}.env", data)
    (read,) = re.findall(r"^EnvironmentFile=(.+)$", unit, re.MULTILINE)
    assert install.endswith(f"{data}/{role}.env {read}")
    assert (ROOT / copy.split()[2]).is_file()
    assert enable.split()[-1] == f"reliquary-{role}"
    assert f"ReadWritePaths={data}\n" in unit
    assert "--data /var/lib/reliquary" in by_systemd(role, Path("/srv/x.env"), Path("/srv"))[0]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
@pytest.mark.parametrize("role", SETTINGS)
def test_systemd_takes_a_unit(role: str, tmp_path: Path) -> None:
    unit = tmp_path / f"reliquary-{role}.service"
    text = (DEPLOY / unit.name).read_text()
    # The command need not be installed here.
    unit.write_text(re.sub(r"/opt/\S+/reliquary", str(shutil.which("true")), text))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_needed_at_least_is_said_of_every_role() -> None:
    needs = yaml.safe_load((DEPLOY / "min_compute.yml").read_text())
    assert set(needs) == {"version", *SETTINGS}
    for role in NODES:
        assert needs[role]["gpu"]["memory_gb"] >= memory.WANTED_GIB
