"""Native deliveries: bounded files in either format, reports, and exporters that die."""

import asyncio
import io
import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from exports import receipts_of, run_export, text_of
from sqlmodel import col
from world import INPUT_FILE, World

from gateway.files import find_file, pieces_of, segments_of
from gateway.orders import life, native_delivery
from gateway.orders.content import object_key
from gateway.orders.kept_quotes import Terms, keep_quote, read_quote
from gateway.orders.parquet import FORMAT, SCHEMA
from gateway.orders.placing import Placement, place
from gateway.store.tables import DeliveredFile, Dialect, Order, OutputFormat
from protocol.manifest import MANIFEST, Manifest, NativeStatement
from protocol.receipts import SampleReceipt, fault

PROMPTS = [[1, 2], [3], [1, 2], [4, 5, 6], [7]]


async def place_natively(
    world: World, output_format: OutputFormat = OutputFormat.OPENAI_JSONL, **options
) -> Order:
    terms = Terms(24, output_format, None, None)
    made = world.quote(options.pop("prompts", PROMPTS), **options)
    kept = await keep_quote(
        world.store, world.account_id, INPUT_FILE, made, terms, world.policy, world.now
    )
    placement = Placement(
        input_file_id=INPUT_FILE,
        dialect=Dialect.NATIVE,
        completion_window_hours=24,
        metadata=None,
        idempotency_key=f"key-of-{kept.id}",
        body_sha256="00",
        drawn_seed=4_242,
        kept=kept,
    )
    return await place(
        world.store, world.account_id, read_quote(kept), placement, world.policy, world.now
    )


async def finish(world: World) -> None:
    await world.finish(await world.node("miner"), await world.node("validator"))


async def files_of(world: World, order: Order) -> dict[str, bytes]:
    """Return the files of a delivery by name, in the order of their names."""
    rows = await world.rows(DeliveredFile, col(DeliveredFile.order_id) == order.id)
    found = {}
    for row in sorted(rows, key=lambda row: row.name):
        content = await world.store.objects.get(row.object_key)
        assert (row.bytes, row.sha256) == (len(content), sha256(content).hexdigest())
        found[row.name] = content
    return found


def statement_of(files: dict[str, bytes]) -> NativeStatement:
    """Return the statement of a manifest, which must be true of the other files."""
    manifest = Manifest.model_validate_json(files[MANIFEST])
    assert manifest.is_signed() and manifest.encoded() == files[MANIFEST]
    statement = manifest.statement
    assert isinstance(statement, NativeStatement)
    stated = {name: (record.bytes, record.sha256) for name, record in statement.files.items()}
    assert stated == {
        name: (len(content), sha256(content).hexdigest())
        for name, content in files.items()
        if name != MANIFEST
    }
    return statement


async def test_jsonl_in_bounded_files(world: World, model_folder: Path) -> None:
    world.policy = replace(world.policy, shard_rows=2)
    order = await place_natively(world, n=2, refused=3)
    await finish(world)
    assert await run_export(world, order, model_folder)
    order = await world.order(order)
    assert (order.status, order.output_file_id) == ("completed", f"file-out-{order.id}")
    files = await files_of(world, order)
    for file_id, kind in ((order.output_file_id, "output"), (order.error_file_id, "errors")):
        joined = b"".join(files[name] for name in files if name.startswith(kind))
        row = await find_file(world.store, world.account_id, file_id or "")
        assert (row.bytes, row.sha256) == (len(joined), sha256(joined).hexdigest())
        segments = await segments_of(world.store, row)
        for start, end in ((0, row.bytes), (1, 2), (5, row.bytes - 3), (row.bytes // 2, row.bytes)):
            pieces = pieces_of(world.store, segments, start, end)
            assert b"".join([piece async for piece in pieces]) == joined[start:end]
    assert list(files) == [
        "errors-00000.jsonl",
        "errors-00001.jsonl",
        "manifest.json",
        "output-00000.jsonl",
        "output-00001.jsonl",
        "output-00002.jsonl",
        *(f"receipts-{at:05}.jsonl" for at in range(5)),
        "report.json",
    ]
    rows = [json.loads(row) for name in files if name.startswith("output")
            for row in files[name].splitlines()]  # fmt: skip
    assert [row["custom_id"] for row in rows] == [f"q{at}" for at in range(5)]
    assert [len(files[f"output-{at:05}.jsonl"].splitlines()) for at in range(3)] == [2, 2, 1]
    assert [len(files[f"errors-{at:05}.jsonl"].splitlines()) for at in range(2)] == [2, 1]
    proofs = [SampleReceipt.model_validate_json(row) for name in files
              if name.startswith("receipts") for row in files[name].splitlines()]  # fmt: skip
    assert len(proofs) == 10
    assert [fault(proof) for proof in proofs] == [None] * 10
    for proof in proofs:
        choice = rows[proof.prompt_index]["response"]["body"]["choices"][proof.choice]
        said = (choice["message"]["content"], choice["finish_reason"])
        assert said == text_of(proof.token_ids)
    statement = statement_of(files)
    assert (statement.output_format, statement.max_new_tokens) == ("openai_jsonl", None)
    assert (statement.counts.lines_total, statement.counts.samples_delivered) == (8, 10)


async def test_parquet_in_bounded_files(world: World, model_folder: Path) -> None:
    world.policy = replace(world.policy, shard_rows=4)
    order = await place_natively(world, OutputFormat.PARQUET, n=3)
    await finish(world)
    await run_export(world, order, model_folder)
    order = await world.order(order)
    assert (order.status, order.output_file_id) == ("completed", None)
    files = await files_of(world, order)
    parts = [name for name in files if name.startswith("part")]
    assert parts == [f"part-{at:05}.parquet" for at in range(4)]
    tables = [pq.read_table(io.BytesIO(files[name])) for name in parts]
    assert all(table.schema.equals(SCHEMA, check_metadata=True) for table in tables)
    assert SCHEMA.metadata == {b"format": FORMAT.encode()}
    assert [table.num_rows for table in tables] == [4, 4, 4, 3]
    rows = [row for table in tables for row in table.to_pylist()]
    places = [(row["prompt_index"], row["choice"]) for row in rows]
    assert places == [(line, choice) for line in range(5) for choice in range(3)]
    proofs = {
        (proof.prompt_index, proof.choice): proof
        for name in files if name.startswith("receipts")
        for proof in map(SampleReceipt.model_validate_json, files[name].splitlines())
    }  # fmt: skip
    for row in rows:
        proof = proofs[row["prompt_index"], row["choice"]]
        text, reason = text_of(proof.token_ids)
        assert row == {
            "custom_id": proof.custom_id,
            "prompt_index": proof.prompt_index,
            "choice": proof.choice,
            "sample_index": proof.sample_index,
            "text": text,
            "finish_reason": reason,
            "prompt_tokens": len(PROMPTS[proof.prompt_index]),
            "completion_tokens": len(proof.token_ids),
            "prompt_ids": PROMPTS[proof.prompt_index],
            "token_ids": proof.token_ids,
            "reference": None,
            "grade": None,
            "miner": proof.miner,
            "validator": proof.verdict.validator,
        }
    group = pq.ParquetFile(io.BytesIO(files[parts[0]])).metadata.row_group(0)
    assert {group.column(at).compression for at in range(group.num_columns)} == {"ZSTD"}
    assert statement_of(files).output_format == "parquet"


async def test_parquet_loads_where_data_is_read(
    sqlite_world: World, model_folder: Path, tmp_path: Path
) -> None:
    datasets = pytest.importorskip("datasets")
    pandas = pytest.importorskip("pandas")
    world = sqlite_world
    world.policy = replace(world.policy, shard_rows=2)
    order = await place_natively(world, OutputFormat.PARQUET)
    await finish(world)
    await run_export(world, order, model_folder)
    files = await files_of(world, order)
    paths = []
    for name, content in files.items():
        if name.startswith("part"):
            (tmp_path / name).write_bytes(content)
            paths.append(str(tmp_path / name))
    loaded = datasets.load_dataset(
        "parquet", data_files=paths, split="train", cache_dir=str(tmp_path / "cache")
    )
    assert loaded.num_rows == len(PROMPTS)
    assert [row["custom_id"] for row in loaded] == [f"q{at}" for at in range(len(PROMPTS))]
    assert loaded[3]["prompt_ids"] == PROMPTS[3]
    frame = pandas.concat(map(pandas.read_parquet, paths))
    assert list(frame["custom_id"]) == [row["custom_id"] for row in loaded]
    assert list(frame.columns) == SCHEMA.names


@pytest.mark.parametrize("output_format", list(OutputFormat))
async def test_an_expired_order_delivers_what_is_there(
    sqlite_world: World, model_folder: Path, output_format: OutputFormat
) -> None:
    world = sqlite_world
    order = await place_natively(world, output_format, n=2, refused=1)
    await world.generate(await world.node("miner"))
    await world.audit(await world.node("validator"), ["verified", "void", "void", "void"])
    world.now = order.expires_at_ms
    assert await life.expire(world.store, order.id, world.now)
    await run_export(world, order, model_folder)
    order = await world.order(order)
    assert order.status == "expired"
    files = await files_of(world, order)
    errors = [json.loads(row) for row in files["errors-00000.jsonl"].splitlines()]
    assert [row["error"]["code"] for row in errors] == [
        "stop_unavailable",
        *["missing_samples"] * 5,
    ]
    statement = statement_of(files)
    assert (statement.status, statement.counts.samples_delivered) == ("expired", 1)
    report = json.loads(files["report.json"])
    assert (report["status"], report["counts"]) == ("expired", statement.counts.model_dump())
    (miner,) = report["audit"]["miners"].values()
    assert miner == {"samples": 1, "tokens": statement.counts.completion_tokens}
    assert report["audit"]["samples_void"] == 3
    assert list(report["audit"]["rules"].values()) == [1]
    assert (report["evaluation"], report["type"]) == (None, "reliquary-report/1")


@pytest.mark.parametrize("output_format", list(OutputFormat))
async def test_a_delivery_of_nothing_has_its_first_file(
    sqlite_world: World, model_folder: Path, output_format: OutputFormat
) -> None:
    world = sqlite_world
    order = await place_natively(world, output_format)
    await world.generate(await world.node("miner"))
    world.now = order.expires_at_ms
    await life.expire(world.store, order.id, world.now)
    await run_export(world, order, model_folder)
    files = await files_of(world, await world.order(order))
    name = "part-00000.parquet" if output_format == "parquet" else "output-00000.jsonl"
    assert sorted(files) == sorted(["errors-00000.jsonl", MANIFEST, name, "report.json"])
    if output_format == "parquet":
        table = pq.read_table(io.BytesIO(files[name]))
        assert (table.num_rows, table.schema) == (0, SCHEMA)
    else:
        assert files[name] == b""


@pytest.mark.parametrize("output_format", list(OutputFormat))
async def test_a_killed_export_goes_on_with_the_same_bytes(
    sqlite_world: World, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    output_format: OutputFormat,
) -> None:  # fmt: skip
    """Killed before each of its objects, until there is none left to be killed before."""
    world = sqlite_world
    world.policy = replace(world.policy, shard_rows=3)
    order = await place_natively(world, output_format, n=2, refused=1)
    await finish(world)
    put, kills = world.store.objects.put, 0
    puts: list[str] = []
    limit = 0

    async def put_or_hang(key: str, content: bytes | Path) -> None:
        if len(puts) >= limit:
            stuck.set()
            await asyncio.Event().wait()
        puts.append(key)
        await put(key, content)

    monkeypatch.setattr(world.store.objects, "put", put_or_hang)
    while True:
        puts.clear()
        stuck = asyncio.Event()
        work = asyncio.create_task(run_export(world, order, model_folder))
        hung = asyncio.create_task(stuck.wait())
        await asyncio.wait([work, hung], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            hung.cancel()
            assert work.result()
            break
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert (await world.order(order)).receipts_key is None
        world.now += world.policy.export_lease_ms
        limit += 1
        kills += 1
    files = await files_of(world, await world.order(order))
    assert kills == len(files) >= 8
    # Each file was stored once, under its content's name; of the signed manifest every try's.
    folder = tmp_path / "objects" / object_key(order.id, "delivery")
    stored = [path.name for path in folder.rglob("*") if path.is_file()]
    assert sorted(name for name in stored if name != MANIFEST) == sorted(
        name for name in files if name != MANIFEST
    )
    statement_of(files)


async def test_scratch_holds_no_more_than_the_files_at_work(
    sqlite_world: World, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = sqlite_world
    world.policy = replace(world.policy, shard_rows=1)
    order = await place_natively(world, prompts=[[at % 90 + 1] for at in range(40)])
    await finish(world)
    most = 0
    stored = native_delivery._stored

    async def watched(objects, row, shards):
        nonlocal most
        kept = await stored(objects, row, shards)
        if shards:
            most = max(most, len(list(shards[0].path.parent.iterdir())))
        return kept

    monkeypatch.setattr(native_delivery, "_stored", watched)
    await run_export(world, order, model_folder)
    assert len(await files_of(world, await world.order(order))) == 82
    assert most <= 2


async def test_a_batch_lists_its_files_too(sqlite_world: World, model_folder: Path) -> None:
    world = sqlite_world
    order = await world.place(PROMPTS, refused=1)
    await finish(world)
    await run_export(world, order, model_folder)
    order = await world.order(order)
    files = await files_of(world, order)
    assert sorted(files) == [
        "errors.jsonl", "manifest.json", "output.jsonl", "receipts.jsonl", "report.json",
    ]  # fmt: skip
    assert files[MANIFEST] == await world.store.objects.get(object_key(order.id, MANIFEST))
    assert len(await receipts_of(world, order)) == len(PROMPTS)
