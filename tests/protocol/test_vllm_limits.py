"""What vLLM cannot load is refused by name, and not announced."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from miner.settings import MinerSettings
from protocol.architectures import SUPPORTED_ARCHITECTURES
from protocol.vllm_limits import (
    NEED_TORCHVISION,
    VllmUnusable,
    check_model,
    not_computed_here,
)

PLAIN, HYBRID, VISION = SUPPORTED_ARCHITECTURES


def write(folder: Path, architecture: str, dtype: str = "bfloat16") -> Path:
    text: dict[str, object] = {"dtype": dtype}
    if architecture != PLAIN:
        text["layer_types"] = ["linear_attention", "full_attention"]
    config = {"text_config": text} if architecture == VISION else text
    (folder / "config.json").write_text(json.dumps({"architectures": [architecture], **config}))
    return folder


@pytest.fixture
def torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty package of that name, for machines that have none."""
    package = tmp_path / "site" / "torchvision"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(package.parent))


def settings(tmp_path: Path, **options: object) -> MinerSettings:
    values = {"gateway": "http://127.0.0.1", "hotkey": tmp_path / "key", **options}
    return MinerSettings(**values)  # pyright: ignore[reportArgumentType]


@pytest.mark.skipif(find_spec("torchvision") is not None, reason="torchvision is installed")
@pytest.mark.parametrize("architecture", [HYBRID, VISION])
def test_a_library_that_is_not_there_is_named(tmp_path: Path, architecture: str) -> None:
    with pytest.raises(VllmUnusable, match=f"{architecture} needs torchvision.*'transformers'"):
        check_model(write(tmp_path, architecture), "auto", on_cpu=False)
    assert check_model(write(tmp_path, PLAIN), "float32", on_cpu=True) == PLAIN
    assert not_computed_here() == NEED_TORCHVISION
    assert settings(tmp_path, engine="vllm").architectures == (PLAIN,)


@pytest.mark.usefixtures("torchvision")
def test_with_the_library_all_is_loaded_in_bfloat16(tmp_path: Path) -> None:
    for architecture in SUPPORTED_ARCHITECTURES:
        for dtype in ("auto", "bfloat16"):
            assert check_model(write(tmp_path, architecture), dtype, True) == architecture
    assert settings(tmp_path, engine="vllm").architectures == SUPPORTED_ARCHITECTURES


@pytest.mark.usefixtures("torchvision")
@pytest.mark.parametrize(("own", "dtype"), [("bfloat16", "float32"), ("float16", "auto")])
@pytest.mark.parametrize("architecture", [HYBRID, VISION])
def test_the_cpu_build_computes_linear_attention_in_bfloat16_alone(
    tmp_path: Path, architecture: str, own: str, dtype: str
) -> None:
    folder = write(tmp_path, architecture, own)
    with pytest.raises(VllmUnusable, match="bfloat16 alone, not in float"):
        check_model(folder, dtype, on_cpu=True)
    assert check_model(folder, dtype, on_cpu=False) == architecture


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VllmUnusable, match=r"no config\.json"):
        check_model(tmp_path, "auto", on_cpu=True)


def test_the_other_engine_and_a_list_of_ones_own(tmp_path: Path) -> None:
    assert settings(tmp_path, engine="transformers").architectures == SUPPORTED_ARCHITECTURES
    own = settings(tmp_path, engine="vllm", architectures=("LlamaForCausalLM",))
    assert own.architectures == ("LlamaForCausalLM",)
