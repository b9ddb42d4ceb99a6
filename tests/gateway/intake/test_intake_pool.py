"""The worker processes: real ones, that read files, hang, die and are replaced."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from gateway.intake.job import IntakeJob
from gateway.intake.pool import IntakePool
from gateway.worker import process_id

CHAT = (
    b'{"custom_id":"q1","method":"POST","url":"/v1/chat/completions",'
    b'"body":{"model":"reliquary/tiny","messages":[{"role":"user","content":"hi"}]}}\n'
)


@pytest.fixture
async def pool() -> AsyncIterator[IntakePool]:
    async with IntakePool(workers=1) as pool:
        yield pool


async def test_reads_a_file_and_its_first_model(pool: IntakePool, job: IntakeJob) -> None:
    job.input_path.write_bytes(b"\xef\xbb\xbf\n[1]\nnonsense\n" + CHAT)
    assert await pool.first_model(job.input_path) == "reliquary/tiny"
    intake = await pool.intake(job, "ann")
    assert (intake.usable_lines, intake.refused_lines) == (1, 2)


async def test_a_refused_file_is_the_customers_error(pool: IntakePool, job: IntakeJob) -> None:
    job.input_path.write_bytes(b"nonsense\n")
    with pytest.raises(GatewayError) as refusal:
        await pool.intake(job, "ann")
    assert (refusal.value.status, refusal.value.code) == (422, "invalid_batch_file")
    assert "no_usable_line" in refusal.value.message


async def test_a_worker_that_dies_is_replaced(pool: IntakePool, job: IntakeJob) -> None:
    job.input_path.write_bytes(CHAT)
    with pytest.raises(GatewayError) as refusal:
        await pool.run(os.kill, await pool.run(process_id), signal.SIGKILL)
    assert (refusal.value.status, refusal.value.code) == (503, "batch_unavailable")
    assert refusal.value.retry_after is not None
    assert (await pool.intake(job, "ann")).usable_lines == 1


async def test_a_worker_that_hangs_is_stopped(job: IntakeJob) -> None:
    job.input_path.write_bytes(CHAT)
    async with IntakePool(workers=1, job_seconds=5) as pool:
        hung = await pool.run(process_id)
        with pytest.raises(GatewayError) as refusal:
            await pool.run(time.sleep, 600)
        assert refusal.value.code == "batch_unavailable"
        await _gone(hung)


async def test_a_cancelled_reader_frees_its_worker(pool: IntakePool, job: IntakeJob) -> None:
    job.input_path.write_bytes(CHAT)
    busy = await pool.run(process_id)
    task = asyncio.create_task(pool.run(time.sleep, 600))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _gone(busy)
    assert (await pool.intake(job, "ann")).usable_lines == 1


async def test_a_busy_pool_says_so(job: IntakeJob) -> None:
    async with IntakePool(workers=1, wait_seconds=0.1) as pool:
        task = asyncio.create_task(pool.run(time.sleep, 600))
        await asyncio.sleep(0)
        with pytest.raises(GatewayError) as refusal:
            await pool.first_model(job.input_path)
        assert refusal.value.code == "batch_unavailable"
        task.cancel()


async def test_who_sends_many_files_waits_for_himself(pool: IntakePool, job: IntakeJob) -> None:
    job.input_path.write_bytes(CHAT)
    ended: list[str] = []

    async def read(customer: str, number: int) -> None:
        folder = job.folder / f"{customer}{number}"
        folder.mkdir()
        await pool.intake(replace(job, folder=folder), customer)
        ended.append(customer)

    busy = asyncio.create_task(pool.run(time.sleep, 0.5))
    await asyncio.sleep(0.1)
    await asyncio.gather(*(read("ann", number) for number in range(3)), read("bob", 0), busy)
    assert ended == ["ann", "bob", "ann", "ann"]


async def test_a_file_waits_so_long_for_another_of_its_customer(job: IntakeJob) -> None:
    job.input_path.write_bytes(CHAT)
    async with IntakePool(workers=1, wait_seconds=0.2) as pool, pool._turns.hold("ann"):
        with pytest.raises(GatewayError) as refusal:
            await pool.intake(job, "ann")
        assert refusal.value.code == "batch_unavailable"
        assert (await pool.intake(job, "bob")).usable_lines == 1


async def test_a_tokenizer_that_does_not_end(
    pool: IntakePool, job: IntakeJob, model_folder: Path, tmp_path: Path
) -> None:
    """Each of its normalizers doubles the text, of which 32 MB would be made."""
    folder = tmp_path / "hostile"
    shutil.copytree(model_folder, folder)
    hostile = json.loads((folder / "tokenizer.json").read_text())
    double = {"type": "Replace", "pattern": {"Regex": "(.)"}, "content": "xx"}
    hostile["normalizer"] = {"type": "Sequence", "normalizers": [double] * 23}
    (folder / "tokenizer.json").write_text(json.dumps(hostile))
    job.input_path.write_bytes(CHAT)
    await pool.run(exec, "from gateway.intake import watchdog; watchdog.FIRST_SECONDS = 0.5")
    with pytest.raises(GatewayError) as refusal:
        await pool.intake(replace(job, tokenizer_folder=folder), "ann")
    assert (refusal.value.status, refusal.value.code) == (422, "model_unsupported")
    assert "does not end in bounded time" in refusal.value.message
    assert (await pool.intake(job, "ann")).usable_lines == 1


async def test_a_missing_file_is_an_error_of_ours(pool: IntakePool, job: IntakeJob) -> None:
    with pytest.raises(FileNotFoundError):
        await pool.intake(replace(job, input_path=Path("/nonexistent")), "ann")
    assert await pool.run(process_id)


async def test_workers_end_with_a_killed_parent() -> None:
    program = (
        "import asyncio, os, signal\n"
        "from gateway.intake.pool import IntakePool\n"
        "from gateway.worker import process_id\n"
        "async def main():\n"
        "    pool = IntakePool(workers=1)\n"
        "    await pool.start()\n"
        "    print(await pool.run(process_id), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "if __name__ == '__main__':\n"
        "    asyncio.run(main())\n"
    )
    child = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], capture_output=True, check=False
    )
    assert child.returncode == -signal.SIGKILL
    await _gone(int(child.stdout))


async def test_a_worker_never_imports_torch(pool: IntakePool, job: IntakeJob) -> None:
    job.input_path.write_bytes(CHAT)
    await pool.intake(job, "ann")
    loaded = await pool.run(eval, "sorted(__import__('sys').modules)")
    assert "tokenizers" in loaded
    assert not {"torch", "transformers", "numba", "vllm"} & set(loaded)


async def _gone(process: int) -> None:
    """Wait until a process has ended; a zombie has."""
    for _ in range(100):
        if not _runs(process):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"process {process} still runs")


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


async def _peak_memory(pool: IntakePool) -> int:
    """The worker's peak resident memory in KiB.

    Read from /proc, since ``ru_maxrss`` counts what the parent held before the worker began.
    """
    status = await pool.run(Path.read_text, Path("/proc/self/status"))
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1))


async def test_memory_does_not_grow_with_the_file(pool: IntakePool, job: IntakeJob) -> None:
    """The many lines' ids alone would be 80 MB as Python lists."""
    line = (
        '{"custom_id":"q%d","method":"POST","url":"/v1/completions","body":{"prompt":[%s],"n":2}}\n'
    )
    ids = ",".join(["7"] * 25_000)

    async def peak(lines: int) -> int:
        with job.input_path.open("w") as file:
            file.writelines(line % (number, ids) for number in range(lines))
        intake = await pool.intake(replace(job, endpoint="/v1/completions"), "ann")
        assert (intake.usable_lines, intake.prompt_tokens) == (lines, lines * 25_000)
        return await _peak_memory(pool)

    few = await peak(10)
    many = await peak(400)
    assert many - few < 40_000  # KiB


async def test_a_long_text_is_refused_in_little_memory(pool: IntakePool, job: IntakeJob) -> None:
    line = CHAT.replace(b"q1", b"q2").replace(b'"hi"', b'"' + b"long text " * 400_000 + b'"')
    job.input_path.write_bytes(CHAT + line + CHAT.replace(b"q1", b"q3"))
    intake = await pool.intake(job, "ann")
    assert (intake.usable_lines, intake.refused_lines) == (2, 1)
    refused = json.loads((job.folder / "refused.jsonl").read_text())
    assert refused["error"]["code"] == "context_too_long"
    assert await _peak_memory(pool) < 300_000  # KiB; encoding all of it takes 900,000
