"""Environment files: what a shell, systemd and docker compose read, one ``NAME=value`` a line."""

import os
import shlex
from collections.abc import Mapping, Sequence
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
    except OSError as error:
        raise EnvFileError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise EnvFileError(f"{path} cannot be read: it is not UTF-8") from error
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
    _write(path, [_line(name, value) for name, value in variables.items()])


def change_environment(path: Path, changes: Mapping[str, str]) -> None:
    """Set some variables of a file, which need not be there; all else of it stays as it is.

    Raises:
        EnvFileError: the file cannot be read.
    """
    read_environment(path)
    lines = path.read_text().splitlines() if path.exists() else []
    left = dict(changes)
    for place, line in enumerate(lines):
        name = line.partition("=")[0].strip()
        if name in changes:
            lines[place] = _line(name, changes[name])
            left.pop(name, None)
    _write(path, [*lines, *(_line(name, value) for name, value in left.items())])


def _line(name: str, value: str) -> str:
    return f"{name}={shlex.quote(value)}"


def _write(path: Path, lines: Sequence[str]) -> None:
    draft = path.with_name(f"{path.name}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write("".join(f"{line}\n" for line in lines))
    draft.replace(path)
