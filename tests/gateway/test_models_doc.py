"""``docs/models.md`` says what the code does."""

import re
from pathlib import Path

from gateway.catalog.sizes import LEAST_PROMPT, SEQUENCES, WEIGHTS_FACTOR
from gateway.catalog.speeds import SLOWEST, SPEEDS, speed_of
from gateway.orders.capacity import TELLING_TOKENS
from gateway.settings import GatewaySettings
from protocol.architectures import SUPPORTED_ARCHITECTURES

TEXT = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")


def test_the_table_of_speeds_is_the_codes() -> None:
    rows = re.findall(r"^\| ([\d,]+|more) \| ([\d,]+) \|$", TEXT, re.MULTILINE)
    told = [(most, int(speed.replace(",", ""))) for most, speed in rows]
    expected: list[tuple[str, float]] = [(f"{most:,}", speed) for most, speed in SPEEDS]
    assert told == [*expected, ("more", SLOWEST)]


def test_a_models_speed_is_that_of_the_first_size_it_fits() -> None:
    (least, fastest), (_, second) = SPEEDS[:2]
    assert [speed_of(0), speed_of(least), speed_of(least + 1)] == [fastest, fastest, second]
    assert speed_of(SPEEDS[-1][0] + 1) == SLOWEST
    # Larger models are never faster.
    assert [speed for _, speed in SPEEDS] == sorted((speed for _, speed in SPEEDS), reverse=True)


def test_every_supported_architecture_is_described() -> None:
    assert re.findall(r"^\| `(\w+)`", TEXT, re.MULTILINE) == list(SUPPORTED_ARCHITECTURES)


def test_the_figures_are_the_codes(tmp_path: Path) -> None:
    settings = GatewaySettings(data=tmp_path)
    assert f"{settings.node_gpus} GPUs of {settings.gpu_gb:.0f} GB" in TEXT
    assert settings.node_bytes == settings.node_gpus * round(settings.gpu_gb) * 10**9
    assert f"at least {LEAST_PROMPT:,}" in TEXT
    assert f"weights x {WEIGHTS_FACTOR} and" in TEXT
    assert SEQUENCES == 8
    assert f"{TELLING_TOKENS:,} tokens" in TEXT
