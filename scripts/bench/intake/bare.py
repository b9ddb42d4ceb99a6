"""The least that reading a file can cost: its JSON parsed, rendered and tokenized, nothing else."""

import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path

from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

BATCH_LINES = 256


def bare_seconds(path: Path, model: Path) -> float:
    """Return the processor seconds of reading ``path`` barely, in a process of its own.

    Tokenizer and template are loaded before the clock starts.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as executor:
        return executor.submit(_read, path, model).result()


def _read(path: Path, model: Path) -> float:
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((model / "chat_template.jinja").read_text())
    started = time.process_time()
    with path.open("rb") as file:
        while lines := list(islice(file, BATCH_LINES)):
            bodies = [json.loads(line)["body"] for line in lines]
            texts = [
                template.render(
                    messages=body["messages"],
                    tools=None,
                    documents=None,
                    add_generation_prompt=True,
                    **body["chat_template_kwargs"],
                )
                for body in bodies
            ]
            for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False):
                encoding.ids  # noqa: B018 - the ids are what is wanted
    return time.process_time() - started
