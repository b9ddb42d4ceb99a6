"""A small real tokenizer with a ChatML template, and files read with it."""

import json
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from gateway.catalog.lookup import Catalog
from gateway.intake import outcome
from gateway.intake.file import run_intake
from gateway.intake.job import IntakeJob
from gateway.intake.outcome import FileRefusal, Intake
from gateway.orders.capacity import Capacity
from gateway.orders.policy import Policy
from gateway.store.engine import Store
from gateway.store.objects import open_objects
from protocol.architectures import SUPPORTED_ARCHITECTURES
from scripts.hub import HubServer, publish

MODEL = "reliquary/tiny"
TEMPLATE = Path(__file__).parents[3] / "scripts" / "tiny_model" / "template.jinja"

Row = dict[str, object]


@dataclass(frozen=True)
class Read:
    """An intake and what it wrote."""

    intake: Intake
    usable: list[Row]
    refused: list[Row]
    prompts: list[list[int]]

    def codes(self) -> dict[object, object]:
        """The code of each refused line by its number."""
        return {row["line"]: row["error"]["code"] for row in self.refused}


def make_chat(custom_id: str = "q1", **body: object) -> Row:
    """A good chat line; members of its body can be set or replaced."""
    return {
        "custom_id": custom_id,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], **body},
    }


def make_completion(custom_id: str = "q1", **body: object) -> Row:
    """A good completions line; members of its body can be set or replaced."""
    return {
        "custom_id": custom_id,
        "method": "POST",
        "url": "/v1/completions",
        "body": {"model": MODEL, "prompt": "hello", **body},
    }


def as_bytes(lines: Iterable[Row | bytes | str]) -> bytes:
    """A file of lines: rows as JSON, texts and bytes as they are."""
    return b"".join(_line(line) + b"\n" for line in lines)


def _line(line: Row | bytes | str) -> bytes:
    if isinstance(line, bytes):
        return line
    return (line if isinstance(line, str) else json.dumps(line)).encode()


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE tokenizer, trained on a little text, and the tiny model's chat template."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(["hello world system user assistant the capital"] * 50, trainer)
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in specials])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    shutil.copy(TEMPLATE, folder / "chat_template.jinja")
    return folder


@pytest.fixture(scope="session")
def tokenizer(model_folder: Path) -> Tokenizer:
    """The tokenizer of ``model_folder``."""
    return Tokenizer.from_file(str(model_folder / "tokenizer.json"))


@pytest.fixture
def job(tmp_path: Path, model_folder: Path, tokenizer: Tokenizer) -> IntakeJob:
    """A chat job on ``input.jsonl``, which is still to be written."""
    folder = tmp_path / "outcome"
    folder.mkdir()
    return IntakeJob(
        input_path=tmp_path / "input.jsonl",
        folder=folder,
        endpoint="/v1/chat/completions",
        graded=False,
        model=MODEL,
        vocabulary_size=tokenizer.get_vocab_size(),
        context_length=32_768,
        tokenizer_folder=model_folder,
        template_time=1_762_685_000,
    )


@pytest.fixture
def run(job: IntakeJob) -> Callable[..., Intake | FileRefusal]:
    """Write lines (or the bytes of a file) and read them; further arguments change the job."""

    def call(lines: Iterable[Row | bytes | str] | bytes, **changes: object) -> Intake | FileRefusal:
        job.input_path.write_bytes(lines if isinstance(lines, bytes) else as_bytes(lines))
        return run_intake(replace(job, **changes))

    return call


@pytest.fixture
def read(run: Callable[..., Intake | FileRefusal]) -> Callable[..., Read]:
    """As ``run``, for files that are not refused; gives what was written too."""

    def call(lines: Iterable[Row | bytes | str] | bytes, **changes: object) -> Read:
        intake = run(lines, **changes)
        assert isinstance(intake, Intake), intake
        return read_back(intake)

    return call


def read_back(intake: Intake) -> Read:
    """Read the files of an intake and hold them to their description."""
    usable = _rows(intake.folder / outcome.LINES)
    refused = _rows(intake.folder / outcome.REFUSED)
    ids = np.fromfile(intake.folder / outcome.PROMPTS, dtype="<u4")
    offsets = np.fromfile(intake.folder / outcome.OFFSETS, dtype="<u8")
    prompts = [ids[start:end].tolist() for start, end in pairwise(offsets)]
    assert (len(usable), len(refused)) == (intake.usable_lines, intake.refused_lines)
    assert intake.total_lines == intake.usable_lines + intake.refused_lines
    assert len(offsets) == intake.usable_lines + 1
    assert offsets[0] == 0
    assert offsets[-1] == len(ids) == intake.prompt_tokens
    assert max(map(len, prompts)) == intake.longest_prompt
    return Read(intake, usable, refused, prompts)


def _rows(path: Path) -> list[Row]:
    text = path.read_text(encoding="ascii")
    assert text == "" or text.endswith("\n")
    return [json.loads(row) for row in text.splitlines()]


@pytest.fixture
def chat() -> Callable[..., Row]:
    """Makes good chat lines: ``chat(custom_id, **body)``."""
    return make_chat


@pytest.fixture
async def capacity(tmp_path: Path) -> AsyncIterator[Capacity]:
    """Nodes of 8 GPUs that serve what the project does; none has announced itself."""
    objects = open_objects(f"file://{tmp_path / 'objects'}")
    store = await Store.open(f"sqlite:///{tmp_path / 'capacity.sqlite'}", objects)
    yield Capacity(store, Policy(), SUPPORTED_ARCHITECTURES, 640 * 10**9)
    await store.close()


@pytest.fixture
def completion() -> Callable[..., Row]:
    """Makes good completions lines: ``completion(custom_id, **body)``."""
    return make_completion


CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "vocab_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 32_768,
    "eos_token_id": 2,
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A running hub that ``HF_ENDPOINT`` names; gives its folder to publish into."""
    folder = tmp_path / "hub"
    with HubServer(folder) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield folder


@pytest.fixture
def put(hub: Path, model_folder: Path, tmp_path: Path) -> Callable[..., str]:
    """Publish a commit of a model: the session's tokenizer, a configuration, a few weights.

    ``put(name, config=..., without=..., extra=...)`` gives the commit.
    """

    def call(
        name: str = MODEL,
        config: dict[str, object] | None = None,
        without: str = "",
        extra: dict[str, str] | None = None,
    ) -> str:
        folder = tmp_path / "files"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(model_folder, folder)
        (folder / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}))
        (folder / "model.safetensors").write_bytes(b"weights are never read here")
        for path, text in (extra or {}).items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text)
        if without:
            (folder / without).unlink()
        return publish(hub, name, folder)

    return call


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """A catalog with an empty cache."""
    catalog = Catalog(tmp_path / "cache", lookup_seconds=20)
    yield catalog
    catalog.close()
