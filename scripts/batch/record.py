"""What a run has done so far, kept in its folder, so that the same command goes on with it."""

import os
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from scripts.batch.gateway import BatchError

NAME = ".run.json"


class RunRecord(BaseModel):
    """A run: what was asked for, and the ids of what was made for it.

    ``quote_id`` is also the id of the order that is placed on the quote.
    """

    model_config = ConfigDict(extra="forbid")

    origin: str
    file_sha256: str
    model: str
    revision: str
    output_format: str
    grader: str | None
    completion_window: str
    file_id: str | None = None
    quote_id: str | None = None
    ordered: bool = False

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Return the record of a folder, or None where it has none.

        Raises:
            BatchError: it cannot be read.
        """
        path = folder / NAME
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (ValidationError, OSError) as error:
            raise BatchError(f"{path} cannot be read; choose another --out") from error

    def write(self, folder: Path) -> None:
        """Keep this in a folder; a process killed at any time leaves a whole record."""
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{NAME}.part"
        with part.open("wb") as file:
            file.write(self.model_dump_json().encode())
            file.flush()
            os.fsync(file.fileno())
        part.replace(folder / NAME)

    def check_same(self, asked: "RunRecord") -> None:
        """Check that a command asks for the run of this record.

        Raises:
            BatchError: it asks for another; the message names the first difference.
        """
        for name in ("origin", "file_sha256", "model", "revision", "output_format", "grader"):
            kept, wanted = getattr(self, name), getattr(asked, name)
            if kept != wanted:
                what = "file" if name == "file_sha256" else name.replace("_", " ")
                raise BatchError(
                    f"the folder holds a run with another {what}; choose another --out"
                )
