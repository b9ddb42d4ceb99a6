"""Where a customer's gateway is and with which key: options, environment, or a file of it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.batch.gateway import BatchError
from scripts.env_file import EnvFileError, read_environment

BASE_URL, API_KEY, HUB = "RELIQUARY_BASE_URL", "RELIQUARY_API_KEY", "RELIQUARY_HUB"
FILES = (Path("reliquary.env"), Path("reliquary-data/reliquary.env"))


@dataclass(frozen=True)
class Access:
    """How the gateway is reached.

    Attributes:
        hub: of a network whose models are on none but its own, as the file names it; else None.
    """

    base_url: str
    api_key: str
    hub: str | None = None


def find_access(base_url: str | None, api_key: str | None, file: Path | None) -> Access:
    """Return how the gateway is reached.

    Args:
        base_url, api_key: as given, or None for what the file says.
        file: an environment file; None looks for one of ``FILES``.

    Raises:
        BatchError: one of them is nowhere, or the file cannot be read.
    """
    if file is not None and not file.is_file():
        raise BatchError(f"--env: {file} is no file")
    variables = _variables(file or next(filter(Path.is_file, FILES), None))
    base_url, api_key = base_url or variables.get(BASE_URL), api_key or variables.get(API_KEY)
    for value, name, option in ((base_url, BASE_URL, "base-url"), (api_key, API_KEY, "api-key")):
        if not value:
            raise BatchError(f"--{option} is needed, or {name} in the environment or reliquary.env")
    return Access(base_url or "", api_key or "", variables.get(HUB))


def find_hub() -> str | None:
    """Return the hub that one of ``FILES`` names, None where none does.

    Raises:
        BatchError: the file cannot be read.
    """
    return _variables(next(filter(Path.is_file, FILES), None)).get(HUB)


def use_hub(hub: str | None) -> None:
    """Have models looked up at a hub from now on, unless ``HF_ENDPOINT`` names another.

    Before anything is imported that reads it.
    """
    if hub:
        os.environ.setdefault("HF_ENDPOINT", hub)


def _variables(file: Path | None) -> Mapping[str, str]:
    try:
        return {} if file is None else read_environment(file)
    except EnvFileError as error:
        raise BatchError(str(error)) from error
