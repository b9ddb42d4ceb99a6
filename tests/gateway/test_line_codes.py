"""Every code of a refused line and of a line without its samples, from a delivered error file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_rows import CHAT, COMPLETIONS, NOT_NEUTRAL, TOOL, encoded, request, said
from ended_batch import check_ended, wait
from fake_nodes import all_verified, fake_nodes
from live_gateway import LiveGateway, live_gateway
from raw_customer import RawCustomer
from small_model import MODEL, small_model_hub
from tokenizers import Tokenizer

from protocol.messages import AuditLease, LoadedModel, SampleVerdict
from scripts.hub import publish


def body(**members: Any) -> dict[str, Any]:
    return request("", **members)["body"]


def chat(code: str, **members: Any) -> tuple[str, Any]:
    """A chat line with these members in its body, which the code refuses."""
    return code, {"body": body(**members)}


def completion(code: str, **members: Any) -> tuple[str, Any]:
    """A completions line with these members in its body, which the code refuses."""
    return code, {"url": COMPLETIONS, "body": request("", COMPLETIONS, **members)["body"]}


# Code and the line, as members over those of a good chat line, or as bytes.
LINES: list[tuple[str, Any]] = [
    ("invalid_json", b"{"),
    ("invalid_line", b"[]"),
    ("duplicate_key", b'{"custom_id": "twice", "custom_id": "twice"}'),
    ("invalid_unicode", b'{"custom_id": "\xff"}'),
    ("too_deep", b'{"body": ' + b"[" * 300 + b"]" * 300 + b"}"),
    ("line_too_large", b'"' + b"x" * (4 * 1024 * 1024) + b'"'),
    ("invalid_custom_id", {"custom_id": "x" * 65}),
    ("duplicate_custom_id", {"custom_id": "good"}),
    ("invalid_method", {"method": "GET"}),
    ("invalid_url", {"url": "/v1/embeddings"}),
    ("invalid_body", {"body": []}),
    ("reference_without_grader", {"reference": "4"}),
    chat("model_mismatch", model="reliquary/other"),
    chat("invalid_model", model=5),
    chat("invalid_messages", messages=[]),
    chat("multimodal_unavailable", messages=said("user", [{"type": "image_url"}])),
    chat("invalid_tools", tools={}),
    chat("invalid_chat_template_kwargs", chat_template_kwargs=[]),
    chat("unsupported_template_kwarg", chat_template_kwargs={"nobody_reads_this": 1}),
    chat("greedy_unavailable", temperature=0),
    chat("invalid_temperature", temperature=4.1),
    chat("invalid_top_p", top_p=0),
    chat("invalid_top_k", top_k=-2),
    chat("invalid_min_p", min_p=1),
    chat("invalid_max_tokens", max_tokens=131_073),
    chat("invalid_max_tokens", max_completion_tokens="64"),
    chat("invalid_seed", seed=2**53),
    chat("invalid_n", n=65),
    chat("unsupported_parameter", reasoning_effort="low"),
    *(chat(
        "logprobs_unavailable" if field == "top_logprobs" else f"{field}_unavailable",
        **{field: value}) for field, value in NOT_NEUTRAL.items()),
    completion("invalid_prompt", prompt=["a", "b"]),
    completion("context_too_long", prompt=[1] * 40_000),
    completion("unsupported_parameter", messages=[]),
]  # fmt: skip


def encoded_line(index: int, line: Any) -> bytes:
    """The bytes of a line of ``LINES``, whose custom id tells its row."""
    return line if isinstance(line, bytes) else encoded(request(f"row{index}") | line)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The folder of the hub, and the commit of the small model."""
    folder = tmp_path_factory.mktemp("hub")
    with small_model_hub(folder) as commit:
        yield folder, commit


@pytest.fixture(scope="module")
def gateway(
    hub: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveGateway]:
    with live_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture(scope="module")
def reports(
    gateway: LiveGateway, hub: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[int, dict[str, Any]]:
    """The reports of all lines, from the error file of one batch, by their number."""
    tokenizer = Tokenizer.from_file(str(hub[0] / "files" / "tokenizer.json"))
    answer = [*tokenizer.encode("hello").ids, tokenizer.token_to_id("<|im_end|>")]
    client = gateway.client(gateway.new_key("lines"))
    rows = [encoded(request("good")), encoded(request("short"))]
    rows += [encoded_line(index, line) for index, (_, line) in enumerate(LINES)]
    file = client.files.create(file=("in.jsonl", b"\n".join(rows)), purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")

    def judge(lease: AuditLease) -> list[SampleVerdict]:
        """Decide nothing about the last line that is usable."""
        verdicts = all_verified(lease)
        for at, sample in enumerate(lease.work.samples):
            if "short" in tokenizer.decode(lease.work.prompts[sample.prompt]):
                verdicts[at] = verdicts[at].model_copy(update={"outcome": "inconclusive"})
        return verdicts

    loaded = LoadedModel(model=MODEL, revision=hub[1])
    with fake_nodes(gateway, tmp_path_factory.mktemp("nodes"), loaded, answer, judge):
        ended = wait(client, batch.id)
    assert ended.status == "completed"
    output, errors = check_ended(client, ended)
    assert [row["custom_id"] for row in output] == ["good"]
    return {row.get("line", 0): row for row in errors}


@pytest.mark.parametrize("index", range(len(LINES)), ids=lambda index: f"{index}-{LINES[index][0]}")
def test_a_line_is_refused(reports: dict[int, dict[str, Any]], index: int) -> None:
    code, line = LINES[index]
    report = reports[index + 3]
    assert report["error"]["code"] == code
    assert 0 < len(report["error"]["message"]) < 500
    if not isinstance(line, bytes) and "custom_id" not in line:
        assert report["custom_id"] == f"row{index}"


def test_a_line_without_its_samples(reports: dict[int, dict[str, Any]]) -> None:
    assert reports[0]["custom_id"] == "short"
    assert reports[0]["error"] == {
        "code": "missing_samples", "message": "0 of 1 samples delivered",
    }  # fmt: skip


ALONE: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("invalid_reference", request("q1"), {"reliquary_grader": "exact_match_v1"}),
    (
        "invalid_reference",
        request("q1") | {"reference": "x" * 4_097},
        {"reliquary_grader": "boxed_math_v1"},
    ),
    ("tools_unavailable", request("q1", tools=[TOOL]), {"model": "reliquary/toolless"}),
]


@pytest.mark.parametrize(("code", "line", "metadata"), ALONE)
def test_a_line_is_refused_alone(
    gateway: LiveGateway,
    hub: tuple[Path, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    line: dict[str, Any],
    metadata: dict[str, str],
) -> None:
    place = RawCustomer(gateway, hub[0], tmp_path, "alone", monkeypatch)
    place.model("toolless")
    template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    (tmp_path / "toolless" / "chat_template.jinja").write_text(template)
    publish(hub[0] / "hub", "reliquary/toolless", tmp_path / "toolless")
    line = line | {"body": {**line["body"], "model": None}}
    answer = place.create(line, metadata={"model": MODEL} | metadata)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (422, "invalid_batch_file")
    assert f"Line 1: {code}: " in error["message"]
