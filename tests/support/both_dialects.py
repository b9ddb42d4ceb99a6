"""One order is the same batch in both dialects; used by every test that ends one over HTTP."""

from typing import Any

import httpx
from ended_batch import check_ended
from live_gateway import LiveGateway

from gateway.store.tables import Transfer

Rows = list[dict[str, Any]]


def batch_in(gateway: LiveGateway, url: str, batch_id: str, key: str | None = None) -> Any:
    """Read a batch as raw JSON under ``url``."""
    headers = {"Authorization": f"Bearer {key or gateway.key}"}
    answer = httpx.get(f"{url}/batches/{batch_id}", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _captured(gateway: LiveGateway, batch_id: str) -> int:
    """Return what the ledger says that a batch was charged, in nano-USD."""

    async def read() -> int:
        async with gateway.state.store.read() as session:
            row = await session.get(Transfer, f"capture:{batch_id.removeprefix('batch_')}")
        return 0 if row is None else row.amount_nano

    return gateway.run(read())


def without_nulls(value: Any) -> Any:
    """Return a JSON value without the members that are null."""
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def check_ended_in_both(
    gateway: LiveGateway, batch_id: str, custom_ids: list[str], key: str | None = None
) -> tuple[dict[str, Any], Rows, Rows]:
    """Check an ended batch through either client; return its OpenRelay object and its files."""
    checked = [
        check_ended(client, client.batches.retrieve(batch_id), custom_ids)
        for client in (gateway.client(key), gateway.openrelay(key))
    ]
    assert checked[0] == checked[1]
    output, errors = checked[0]
    strict = batch_in(gateway, gateway.base_url, batch_id, key)
    plain = batch_in(gateway, gateway.openrelay_url, batch_id, key)
    rest = dict(plain)
    usage = rest.pop("usage", None)
    model = rest.pop("model")
    assert rest == without_nulls(strict)
    assert without_nulls(plain) == plain
    assert (usage is None) <= (not output)
    if usage is not None:
        delivered = [row["response"]["body"] for row in output]
        assert {body["model"] for body in delivered} == {model}
        generated = sum(body["usage"]["completion_tokens"] for body in delivered)
        assert usage["output_tokens"] == generated
        prompts = sum(body["usage"]["prompt_tokens"] for body in delivered)
        assert usage["input_tokens"] >= prompts > 0
        assert usage["cost_nano_usd"] == _captured(gateway, batch_id)
    return plain, output, errors
