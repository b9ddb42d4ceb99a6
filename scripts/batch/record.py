"""What a run has done so far, kept in its folder, so that the same command goes on with it."""

import os
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from scripts.batch.gateway import BatchError

NAME = ".run.json"
ASKED = (
    "origin",
    "file_sha256",
    "model",
    "revision",
    "output_format",
    "grader",
    "completion_window",
)


class RunRecord(BaseModel):
    """A run: what was asked for, and the ids of what was made for it.

    ``quote_id`` is also the id of the order that is placed on the quote; ``ordered`` tells that it
    was, or that nobody heard whether it was.
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

    def continued(self, asked: "RunRecord") -> "RunRecord":
        """Return the record that a command goes on with.

        Before anything was ordered all may be asked for anew; the upload of the same file is kept.

        Raises:
            BatchError: another run was ordered; the message names the first difference.
        """
        differing = [name for name in ASKED if getattr(self, name) != getattr(asked, name)]
        if not differing:
            return self
        if self.ordered:
            name = "file" if differing[0] == "file_sha256" else differing[0].replace("_", " ")
            raise BatchError(f"the folder holds a run with another {name}; choose another --out")
        same_upload = not {"origin", "file_sha256"} & set(differing)
        return asked.model_copy(update={"file_id": self.file_id if same_upload else None})
