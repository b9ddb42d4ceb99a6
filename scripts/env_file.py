"""Environment files: what a shell, systemd and docker compose read, one ``NAME=value`` a line."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path


class EnvFileError(ValueError):
    """An environment file cannot be read; the message says where."""


def read_environment(path: Path) -> dict[str, str]:
    """Return the variables of an environment file; none where there is no file.

    Raises:
        EnvFileError: it cannot be read, or the quotes of a line do not match.
    """
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise EnvFileError(f"{path} cannot be read: {error}") from error
    found = {}
    for number, line in enumerate(lines, 1):
        name, sign, value = line.partition("=")
        if not sign or name.lstrip().startswith("#"):
            continue
        try:
            found[name.strip()] = "".join(shlex.split(value))
        except ValueError as error:
            raise EnvFileError(f"{path}, line {number}: {str(error).lower()}") from error
    return found


def write_environment(path: Path, variables: Mapping[str, str]) -> None:
    """Write variables as a file that a shell can source, mode 0600, replaced in one step."""
    draft = path.with_name(f"{path.name}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        for name, value in variables.items():
            file.write(f"{name}={shlex.quote(value)}\n")
    draft.replace(path)
