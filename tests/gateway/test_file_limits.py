"""The limits of a whole file, met by real files at their real size."""

import io
from collections.abc import Iterator

import openai
import pytest
from live_gateway import LiveGateway, live_gateway
from small_model import MODEL, small_model_hub

from gateway.intake.verdict import MAX_FILE_TOKENS

pytestmark = pytest.mark.slow

LINE_TOKENS = 8_000


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with small_model_hub(tmp_path_factory.mktemp("hub")) as published:
        yield published


@pytest.fixture(scope="module")
def gateway(hub: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


def file_of_tokens(tokens: int) -> io.BytesIO:
    """A file of prompts as ids that hold so many tokens together."""
    file = io.BytesIO()
    full, rest = divmod(tokens, LINE_TOKENS)
    for number, count in enumerate([LINE_TOKENS] * full + [rest] * (rest > 0)):
        ids = ",".join(["1"] * count)
        file.write(
            b'{"custom_id":"q%d","method":"POST","url":"/v1/completions","body":{"model":"%s",'
            b'"prompt":[%s],"max_tokens":16}}\n' % (number, MODEL.encode(), ids.encode())
        )
    file.seek(0)
    return file


def ordered(gateway: LiveGateway, tokens: int) -> openai.types.Batch:
    client = gateway.openrelay()
    content = file_of_tokens(tokens)
    file = client.files.create(file=("tokens.jsonl", content), purpose="batch")
    return client.batches.create(
        input_file_id=file.id, endpoint="/v1/completions", completion_window="168h"
    )


def test_as_many_prompt_tokens_as_a_file_may_hold(gateway: LiveGateway) -> None:
    batch = ordered(gateway, MAX_FILE_TOKENS)
    assert batch.status == "validating"
    gateway.openrelay().batches.cancel(batch.id)


def test_one_prompt_token_more(gateway: LiveGateway) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        ordered(gateway, MAX_FILE_TOKENS + 1)
    assert caught.value.code == "invalid_batch_file"
    assert "too_many_tokens: " in caught.value.message
    assert "30,000,000" in caught.value.message
