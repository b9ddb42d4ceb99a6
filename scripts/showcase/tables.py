"""What the demo shows at its end: each answer, who made it, and what became of the cheat."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

ANSWER_WIDTH = 72
SHOWN_ROWS = 60


@dataclass(frozen=True)
class Sample:
    """A delivered sample: its line's id, which of its choices, who made it, audited tokens."""

    custom_id: str
    choice: int
    miner: str
    tokens: int


def answers_table(
    output: Sequence[Mapping[str, Any]], samples: Sequence[Sample], names: Mapping[str, str]
) -> Table:
    """Return the table of answers, a row a choice.

    Args:
        output: the rows of the output file.
        samples: who made each choice.
        names: the miners' names by hotkey.
    """
    made = {(sample.custom_id, sample.choice): sample for sample in samples}
    table = Table("line", "#", "answer", "made by", "tokens audited", title_justify="left")
    rows = 0
    for line in output:
        for choice in line["response"]["body"]["choices"]:
            rows += 1
            if rows > SHOWN_ROWS:
                continue
            sample = made.get((line["custom_id"], choice["index"]))
            who = "?" if sample is None else names.get(sample.miner, sample.miner[:8])
            tokens = "?" if sample is None else str(sample.tokens)
            answer = Text(shortened(_text(choice)))
            # What a customer wrote is text, never markup.
            line_id = Text(shortened(line["custom_id"], 24))
            table.add_row(line_id, str(choice["index"]), answer, who, tokens)
    if rows > SHOWN_ROWS:
        table.caption = f"and {rows - SHOWN_ROWS} more in the output file"
    return table


def show_refused(console: Console, errors: Sequence[Mapping[str, Any]]) -> None:
    """Print the lines of the error file, shortened."""
    for row in errors[:SHOWN_ROWS]:
        error = row["error"]
        place = f"line {row['line']}" if "line" in row else "line"
        text = f"  {place} {row['custom_id']!r}: {error['code']}: {error['message']}"
        console.print(Text(shortened(text, 200)))


def shortened(text: str, width: int = ANSWER_WIDTH) -> str:
    """Return ``text`` in one line of at most ``width`` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else f"{flat[: width - 1]}…"


def _text(choice: Mapping[str, Any]) -> str:
    return choice["message"]["content"] if "message" in choice else choice["text"]
