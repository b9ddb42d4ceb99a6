"""What a miner keeps on disk until the gateway has taken it."""

import os
import resource
import signal
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from miner.ahead import is_near_end
from miner.kept import KEEP_SECONDS, KeptLeases
from protocol.keys import load_or_create_hotkey
from protocol.messages import Lease, Stack
from protocol.results import signed_result

STACK = Stack(
    engine="transformers", version="1", dtype="float32", head_dtype="float32", device="cpu"
)


@pytest.fixture
def lease(make_work, chat_prompts) -> Lease:
    return Lease(
        lease_id="0" * 36,
        attempt=1,
        expires_at=60.0,
        ends_at=600.0,
        heartbeat_seconds=1.0,
        issued_at=1,
        work=make_work(chat_prompts, 2),
        signature="0" * 128,
    )


def test_leases_and_results_outlive_the_process(tmp_path: Path, lease: Lease):
    kept = KeptLeases(tmp_path / "leases")
    kept.keep(lease, STACK)
    assert KeptLeases(tmp_path / "leases").left() == [(lease, STACK, None)]
    key = load_or_create_hotkey(tmp_path / "miner")
    result = signed_result(key, lease, STACK, [[1]] * len(lease.work.samples))
    kept.keep_result(lease.lease_id, result)
    assert KeptLeases(tmp_path / "leases").left() == [(lease, STACK, result)]
    kept.end(lease.lease_id)
    kept.end(lease.lease_id)
    assert kept.left() == []
    # No draft is left behind, and the lease itself stays for a while.
    (over,) = (tmp_path / "leases").iterdir()
    assert Lease.model_validate_json(over.read_bytes()) == lease
    written = over.stat().st_mtime
    kept.prune(written + KEEP_SECONDS - 1)
    assert over.exists()
    kept.prune(written + KEEP_SECONDS + 1)
    assert not over.exists()


def test_a_damaged_file_is_left_out(tmp_path: Path, lease: Lease):
    kept = KeptLeases(tmp_path)
    kept.keep(lease, STACK)
    path = tmp_path / f"{lease.lease_id}.lease.json"
    os.truncate(path, 100)
    assert kept.left() == []
    assert kept.left() == []


def test_a_full_disk_is_told_and_stops_no_work(tmp_path: Path, lease: Lease):
    kept = KeptLeases(tmp_path / "leases")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        # A file that may not grow fails in the write, as it does where no room is left.
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, limits[1]))
        with capture_logs() as logs:
            kept.keep(lease, STACK)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert [line["event"] for line in logs] == ["not kept: a restart loses it"]
    assert list((tmp_path / "leases").iterdir()) == []
    kept.end(lease.lease_id)
    kept.keep(lease, STACK)
    assert kept.left() == [(lease, STACK, None)]


def test_a_draft_of_a_killed_run_is_removed(tmp_path: Path):
    kept = KeptLeases(tmp_path)
    draft = tmp_path / ".x.draft"
    draft.write_bytes(b"{")
    kept.prune(draft.stat().st_mtime + KEEP_SECONDS - 1)
    assert draft.exists()
    kept.prune(draft.stat().st_mtime + KEEP_SECONDS + 1)
    assert not draft.exists()


@pytest.mark.parametrize(
    ("tokens", "mean", "near"),
    [(0, None, False), (79, None, False), (80, None, True), (40, 5.0, True), (39, 5.0, False)],
)
def test_the_next_lease_is_fetched_near_the_end(tokens, mean, near):
    assert is_near_end(tokens, samples=10, max_tokens=10, mean_tokens=mean) == near
