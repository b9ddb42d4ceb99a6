"""The model that a file names before anything else of it is read; runs in a worker process."""

from pathlib import Path

from gateway.intake.lines import read_lines
from gateway.intake.reading import read_leniently


def first_model(path: Path) -> str | None:
    """``body.model`` of the first line that is a JSON object, even if that line is refused.

    Returns:
        The text, or None where there is no such line, or its model is not a text.

    Raises:
        OSError: the file cannot be read.
    """
    for line in read_lines(path):
        value = None if line.data is None else read_leniently(line.data)
        if isinstance(value, dict):
            body = value.get("body")
            model = body.get("model") if isinstance(body, dict) else None
            return model if isinstance(model, str) else None
    return None
