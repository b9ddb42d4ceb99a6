"""The whole path with vLLM: a batch in, audited tokens out, a cheat refused."""

import pytest
from customer import MODEL, Customer, chat_line, tale_lines
from ended_batch import check_ended

pytestmark = pytest.mark.e2e


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

    cheat = vllm_customer.network.hotkey("miner-3")
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
