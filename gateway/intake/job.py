"""The task of a worker: one input file to be read for one model."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class IntakeJob:
    """What a worker needs to read a file.

    Attributes:
        input_path: the input file.
        folder: an empty folder for the outcome's files.
        endpoint: the endpoint that the batch names; None takes that of the first usable line.
        graded: the batch has a grader, so every line needs a reference.
        model: the batch's model.
        vocabulary_size: V of the draw.
        context_length: of the model, in ids.
        tokenizer_folder: the files of the model's pinned commit, weights not needed.
        template_time: Unix seconds that chat templates see.
        max_new_tokens: ``max_tokens`` of the lines that set none, from which no other may differ;
            None for the default of lines.
    """

    input_path: Path
    folder: Path
    endpoint: str | None
    graded: bool
    model: str
    vocabulary_size: int
    context_length: int
    tokenizer_folder: Path
    template_time: int
    max_new_tokens: int | None = None
