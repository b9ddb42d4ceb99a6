"""Where a repository keeps its chat templates, in the places and precedence of transformers.

Templates in files of their own come before those in ``tokenizer_config.json``, all together; a
processor's ``chat_template.json`` comes last.
"""

import json
from collections.abc import Mapping
from pathlib import Path

DEFAULT, TOOL_USE = "default", "tool_use"
_FILE = "chat_template.jinja"
_FOLDER = "additional_chat_templates"
_PROCESSOR_FILE = "chat_template.json"


class UnreadableFile(Exception):
    """A file of the repository is not what its name says; the message names it."""


def read_object(path: Path) -> Mapping[str, object]:
    """The JSON object in a file; empty where there is no file, or another value in it.

    Raises:
        UnreadableFile: it is not JSON.
    """
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise UnreadableFile(f"{path.name} is not JSON") from None
    return value if isinstance(value, dict) else {}


def template_sources(folder: Path, tokenizer_config: Mapping[str, object]) -> dict[str, str]:
    """The texts of ``default`` and ``tool_use``, as far as there are such templates.

    Raises:
        UnreadableFile: a template is not UTF-8, or ``chat_template.json`` is not JSON.
    """
    found = _in_files(folder) or _in_member(tokenizer_config.get("chat_template"))
    if not found:
        found = _in_member(read_object(folder / _PROCESSOR_FILE).get("chat_template"))
    return {name: found[name] for name in (DEFAULT, TOOL_USE) if name in found}


def _in_files(folder: Path) -> dict[str, str]:
    paths = {DEFAULT: folder / _FILE, TOOL_USE: folder / _FOLDER / f"{TOOL_USE}.jinja"}
    return {name: _text(path) for name, path in paths.items() if path.is_file()}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UnreadableFile(f"{path.name} is not UTF-8") from None


def _in_member(value: object) -> dict[str, str]:
    """The templates of a ``chat_template`` member: one text, or a list of named ones."""
    match value:
        case str():
            return {DEFAULT: value}
        case list():
            entries = [entry for entry in value if isinstance(entry, dict)]
            pairs = [(entry.get("name"), entry.get("template")) for entry in entries]
            return {
                name: text
                for name, text in pairs
                if isinstance(name, str) and isinstance(text, str)
            }
        case _:
            return {}
