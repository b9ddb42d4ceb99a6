"""The contract's two walkthroughs run as documented; only address, model and pace are changed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import walkthroughs
from customer import MODEL, Customer

SHARED = Path(__file__).parents[2].parent / "shared"
SECONDS = 120

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not SHARED.exists(), reason="the contract's documents are not here"),
]


@pytest.fixture(scope="module")
def document() -> str:
    return walkthroughs.documents(SHARED)


def _adapted(script: str, customer: Customer, pace: tuple[str, str]) -> str:
    changes = {
        walkthroughs.DOCUMENTED_URL: customer.network.base_url,
        walkthroughs.DOCUMENTED_MODEL: MODEL,
        walkthroughs.DOCUMENTED_REVISION: customer.network.revision,
        pace[0]: pace[1],
    }
    for documented, ours in changes.items():
        assert documented in script
        script = script.replace(documented, ours)
    return script


def _run(command: list[str], customer: Customer, folder: Path) -> str:
    environment = os.environ | {"RELIQUARY_API_KEY": customer.network.api_key}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_sdk_walkthrough(vllm_customer: Customer, document: str, tmp_path: Path) -> None:
    script = walkthroughs.python_script(document)
    path = tmp_path / "batch_openai.py"
    path.write_text(_adapted(script, vllm_customer, ("time.sleep(60)", "time.sleep(1)")))
    printed = _run([sys.executable, str(path)], vllm_customer, tmp_path)
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
    path.write_text(_adapted(script, vllm_customer, ("sleep 60", "sleep 1")))
    _run(["bash", str(path)], vllm_customer, tmp_path)
    rows = [json.loads(row) for row in (tmp_path / "output.jsonl").read_text().splitlines()]
    texts = {row["custom_id"]: row["response"]["body"]["choices"][0] for row in rows}
    assert "Paris" in texts["q1"]["message"]["content"]
    assert "56" in texts["q2"]["message"]["content"]
