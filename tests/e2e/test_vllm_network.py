"""The whole path with vLLM: a batch in, audited tokens out, a cheat refused.

The contract's two walkthroughs run as documented; only address, model and pace are changed.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import walkthroughs
from customer import MODEL, Customer, chat_line, running, tale_lines
from ended_batch import check_ended

from scripts.up.plans import MinerPlan, NetworkPlan

SHARED = Path(__file__).parents[2].parent / "shared"

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def vllm_customer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Customer]:
    """An honest vLLM miner, a cheat, a validator; the repository's own dtype."""
    plan = NetworkPlan(
        data=tmp_path_factory.mktemp("vllm"),
        port=0,
        miners=(MinerPlan("vllm"), MinerPlan("vllm", "own-random-numbers")),
        unit_samples=4,
    )
    with running(plan) as customer:
        yield customer


@pytest.fixture(scope="module")
def document() -> str:
    if not SHARED.exists():
        pytest.skip("the contract's documents are not here")
    return walkthroughs.documents(SHARED)


def test_a_batch_with_a_bad_line_and_a_cheating_miner(vllm_customer: Customer) -> None:
    lines = tale_lines(15, max_tokens=96, n=2)
    lines.insert(7, chat_line("bad", "stop here", max_tokens=96, n=2, stop=["x"]))
    lines.append(chat_line("capital", "What is the capital of France?", max_tokens=96, n=2))
    batch = vllm_customer.wait(vllm_customer.order(lines))
    assert batch.status == "completed"
    output, errors = check_ended(vllm_customer.client, batch, [row["custom_id"] for row in lines])
    assert len(output) == 16
    assert all(len(row["response"]["body"]["choices"]) == 2 for row in output)
    assert [(row["line"], row["error"]["code"]) for row in errors] == [(8, "stop_unavailable")]
    answers = output[-1]["response"]["body"]["choices"]
    assert any("Paris" in choice["message"]["content"] for choice in answers)

    cheat = vllm_customer.network.hotkey("miner-2")
    receipts = vllm_customer.native(batch, "/receipts")
    assert len(receipts) == 32
    assert cheat not in {receipt["miner"] for receipt in receipts}


def test_completions_by_text_and_by_ids(vllm_customer: Customer) -> None:
    def line(custom_id: str, prompt: object) -> dict[str, object]:
        body = {"model": MODEL, "prompt": prompt, "max_tokens": 24, "temperature": 0.7, "top_k": 20}
        return {
            "custom_id": custom_id,
            "method": "POST",
            "url": "/v1/completions",
            "body": body,
        }

    lines = [line("text", "The capital of France is"), line("ids", [10, 20, 30]), line("bad", [])]
    batch = vllm_customer.wait(vllm_customer.order(lines, endpoint="/v1/completions"))
    output, errors = check_ended(vllm_customer.client, batch, ["text", "ids", "bad"])
    assert [row["response"]["body"]["object"] for row in output] == ["text_completion"] * 2
    assert output[1]["response"]["body"]["usage"]["prompt_tokens"] == 3
    assert errors[0]["custom_id"] == "bad"


def test_the_sdk_walkthrough(vllm_customer: Customer, document: str, tmp_path: Path) -> None:
    script = walkthroughs.python_script(document)
    path = tmp_path / "batch_openai.py"
    pace = ("time.sleep(60)", "time.sleep(1)")
    path.write_text(walkthroughs.adapted(script, vllm_customer, pace))
    printed = walkthroughs.run([sys.executable, str(path)], vllm_customer, tmp_path)
    assert "status='completed'" in printed or '"status": "completed"' in printed
    answers = [line for line in printed.splitlines() if line.startswith(("q1 ", "q2 "))]
    assert len(answers) == 2
    assert "Paris" in answers[0]
    assert "56" in answers[1]


def test_the_curl_walkthrough(vllm_customer: Customer, document: str, tmp_path: Path) -> None:
    missing = [name for name in ("curl", "jq", "bash") if shutil.which(name) is None]
    assert not missing, f"install {', '.join(missing)}: the walkthrough needs them"
    script = walkthroughs.curl_script(document)
    path = tmp_path / "batch_curl.sh"
    path.write_text(walkthroughs.adapted(script, vllm_customer, ("sleep 60", "sleep 1")))
    walkthroughs.run(["bash", str(path)], vllm_customer, tmp_path)
    rows = [json.loads(row) for row in (tmp_path / "output.jsonl").read_text().splitlines()]
    texts = {row["custom_id"]: row["response"]["body"]["choices"][0] for row in rows}
    assert "Paris" in texts["q1"]["message"]["content"]
    assert "56" in texts["q2"]["message"]["content"]
