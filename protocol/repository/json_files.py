"""A repository's JSON files, and the numbers in them; what is odd is refused by name."""

import json
from pathlib import Path
from typing import Any, TypeGuard

from protocol.repository.errors import Unsupported

FILE_LIMIT = 64 * 2**20
ID_LIMIT = 2**31


def read_object(folder: Path, name: str) -> dict[str, Any]:
    """Return the JSON object in a file of the repository.

    Raises:
        Unsupported: the file is missing, larger than 64 MiB or holds no JSON object.
    """
    path = folder / name
    if not path.is_file():
        raise Unsupported(f"the repository has no {name}")
    if path.stat().st_size > FILE_LIMIT:
        raise Unsupported(f"{name} is larger than 64 MiB")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise Unsupported(f"{name} is no valid JSON") from error
    if not isinstance(value, dict):
        raise Unsupported(f"{name} must hold a JSON object")
    return value


def read_configs(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return ``config.json`` and its ``text_config``, which is empty where there is none.

    Raises:
        Unsupported: as ``read_object``, or ``text_config`` is no object.
    """
    config = read_object(folder, "config.json")
    text_config = config.get("text_config") or {}
    if not isinstance(text_config, dict):
        raise Unsupported("config.json: text_config must be an object")
    return config, text_config


def read_text_config(folder: Path) -> dict[str, Any]:
    """Return the configuration of the language model: ``text_config``'s members, then the rest.

    Raises:
        Unsupported: see ``read_configs``.
    """
    config, text_config = read_configs(folder)
    return config | text_config


def is_id(value: object) -> TypeGuard[int]:
    """Say whether a value is a whole number from 0 to 2**31 - 1."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < ID_LIMIT


def positive(sources: tuple[dict[str, Any], ...], name: str) -> int:
    """Return the first positive whole number called ``name`` in ``sources``.

    Raises:
        Unsupported: none of them has one.
    """
    for source in sources:
        value = source.get(name)
        if is_id(value) and value > 0:
            return value
    raise Unsupported(f"config.json gives no {name}")
