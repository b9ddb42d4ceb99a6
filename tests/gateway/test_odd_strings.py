"""Odd strings as custom_id, content, metadata and filename: they come back equal or are refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from batch_rows import encoded, request
from ended_batch import check_ended, wait
from fake_nodes import FakeNodes, fake_nodes
from live_gateway import LiveGateway, live_gateway
from odd_strings import HALVES, ODD_STRINGS
from small_model import MODEL, small_model_hub
from tokenizers import Tokenizer

from gateway.api.multipart import FILENAME
from protocol.messages import LoadedModel

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoadedModel, Tokenizer]]:
    folder = tmp_path_factory.mktemp("hub")
    with small_model_hub(folder) as commit:
        tokenizer = Tokenizer.from_file(str(folder / "files" / "tokenizer.json"))
        yield LoadedModel(model=MODEL, revision=commit), tokenizer


@pytest.fixture(scope="module")
def gateway(
    hub: tuple[LoadedModel, Tokenizer], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveGateway]:
    folder = tmp_path_factory.mktemp("gateway")
    with live_gateway(folder, open_orders=1_000, quotes_per_day=10_000) as running:
        yield running


@pytest.fixture(scope="module")
def nodes(
    gateway: LiveGateway,
    hub: tuple[LoadedModel, Tokenizer],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[FakeNodes]:
    loaded, tokenizer = hub
    said = [*tokenizer.encode("hello").ids, tokenizer.token_to_id("<|im_end|>")]
    with fake_nodes(gateway, tmp_path_factory.mktemp("nodes"), loaded, said) as running:
        yield running


def ended(client: openai.OpenAI, lines: list[bytes]) -> tuple[list[Any], list[Any]]:
    """Run a batch of these lines; return its output and its errors."""
    content = b"".join(line + b"\n" for line in lines)
    file = client.files.create(file=("in.jsonl", content), purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
    return check_ended(client, wait(client, batch.id))


def test_custom_ids(gateway: LiveGateway, nodes: FakeNodes) -> None:
    fitting = [text for text in ODD_STRINGS if len(text) <= 64]
    too_long = [text for text in ODD_STRINGS if len(text) > 64]
    lines = [encoded(request("the first"))]
    lines += [encoded(request(text)) for text in (*fitting, *too_long)]
    output, errors = ended(gateway.client(), lines)
    assert [row["custom_id"] for row in output] == ["the first", *fitting]
    assert [(row["custom_id"], row["error"]["code"]) for row in errors] == [
        ("", "invalid_custom_id") for _ in too_long
    ]


def test_content(
    gateway: LiveGateway, nodes: FakeNodes, hub: tuple[LoadedModel, Tokenizer]
) -> None:
    """What the miner is given holds the text; special tokens in it are those of the template."""
    nodes.works.clear()
    lines = [
        encoded(request(f"q{at}", messages=[{"role": role, "content": form(text)}]))
        for at, text in enumerate(ODD_STRINGS)
        for role, form in ((("user", str), ("user", parts))[at % 2],)
    ]
    output, errors = ended(gateway.client(), lines)
    assert (len(output), errors) == (len(ODD_STRINGS), [])
    given = [
        hub[1].decode(ids, skip_special_tokens=False)
        for work in nodes.works
        for ids in work.prompts
    ]
    for text in ODD_STRINGS:
        assert any(f"user\n{text}<|im_end|>" in prompt for prompt in given), ascii(text)


def parts(text: str) -> list[dict[str, str]]:
    """The text as two parts of a message's content."""
    middle = len(text) // 2
    return [{"type": "text", "text": piece} for piece in (text[:middle], text[middle:])]


def test_halves_of_pairs(gateway: LiveGateway, nodes: FakeNodes) -> None:
    escaped = [ascii(text).replace("'", '"').encode() for text in HALVES]
    good = encoded(request("q"))
    lines = [good]
    lines += [good.replace(b'"q"', text, 1) for text in escaped]
    lines += [good.replace(b'"hello q"', text) for text in escaped]
    output, errors = ended(gateway.client(), lines)
    assert len(output) == 1
    assert [row["error"]["code"] for row in errors] == ["invalid_unicode"] * len(lines[1:])
    assert [row["custom_id"] for row in errors] == [""] * len(escaped) + ["q"] * len(escaped)


def test_metadata(gateway: LiveGateway, nodes: FakeNodes) -> None:
    client = gateway.client()
    file = client.files.create(file=encoded(request("q1")), purpose="batch")
    fitting = [text for text in ODD_STRINGS if "\0" not in text and len(text) <= 64]
    for start in range(0, len(fitting), 16):
        some = fitting[start : start + 16]
        metadata = dict(zip(some, reversed(some), strict=True))
        made = client.batches.create(
            input_file_id=file.id, endpoint=CHAT, completion_window="24h", metadata=metadata
        )
        assert made.metadata == metadata
        assert client.batches.retrieve(made.id).metadata == metadata
        (listed,) = (one for one in client.batches.list() if one.id == made.id)
        assert listed.metadata == metadata


@pytest.mark.parametrize(
    "text",
    [text for text in ODD_STRINGS if "\0" in text or len(text) > 64],
    ids=lambda t: ascii(t)[:20],
)
def test_metadata_that_does_not_fit(gateway: LiveGateway, text: str) -> None:
    for metadata in ({text: "a"}, {"a": text * 10}):
        with pytest.raises(openai.BadRequestError) as refused:
            gateway.client().batches.create(
                input_file_id="file-x", endpoint=CHAT, completion_window="24h", metadata=metadata
            )
        assert refused.value.code == "invalid_metadata"


@pytest.mark.parametrize("half", HALVES, ids=ascii)
def test_half_a_pair_in_metadata(gateway: LiveGateway, half: str) -> None:
    body = '{"metadata": {"a": ' + ascii(half).replace("'", '"') + "}}"
    headers = gateway.auth | {"Content-Type": "application/json"}
    answer = httpx.post(f"{gateway.base_url}/batches", content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


def test_filenames(gateway: LiveGateway, tmp_path: Path) -> None:
    client = gateway.client(gateway.new_key("names"))
    kept: list[str] = []
    for text in ODD_STRINGS:
        try:
            file = client.files.create(file=(text, b"x"), purpose="batch")
        except openai.BadRequestError as refused:
            assert (refused.code, refused.param) == ("invalid_file", "file")
            assert FILENAME.fullmatch(text) is None
            continue
        assert file.filename == text
        header = client.files.with_raw_response.content(file.id).headers["content-disposition"]
        assert header == f'attachment; filename="{text}"'
        kept.append(text)
    assert {"CON", "--help", "x" * 64, " ", "-rf"} <= set(kept)
    assert [file.filename for file in client.files.list()] == kept[::-1]
