from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from protocol.chain.base import ChainError
from protocol.chain.bittensor_chain import BittensorChain
from protocol.chain.local import LocalChain
from protocol.chain.option import BittensorOption, ChainSetting, LocalOption, parse_chain

PARSED = [
    ("local:/var/lib/chain.sqlite", LocalOption(Path("/var/lib/chain.sqlite"))),
    ("local:a:b", LocalOption(Path("a:b"))),
    ("chain.sqlite", LocalOption(Path("chain.sqlite"))),
    ("bittensor:finney:81", BittensorOption("finney", 81)),
    ("bittensor:ws://127.0.0.1:9944:2", BittensorOption("ws://127.0.0.1:9944", 2)),
]


@pytest.mark.parametrize(("text", "option"), PARSED)
def test_an_option_names_a_chain(text: str, option: LocalOption | BittensorOption):
    assert parse_chain(text) == option
    assert parse_chain(str(option)) == option
    assert parse_chain(option) is option


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "names no chain; give local:PATH or bittensor:NETWORK:NETUID"),
        ("local:", "names no chain"),
        ("bittensor:finney", "is not of the form bittensor:NETWORK:NETUID"),
        ("bittensor::1", "is not of the form"),
        ("bittensor:finney:-1", "is not of the form"),
        ("bittensor:finney:²", "is not of the form"),
        ("bittensor:finney:65536", "a netuid is at most 65535"),
    ],
)
def test_a_wrong_option_is_told(text: str, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        parse_chain(text)


def test_settings_read_it_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    class Settings(BaseSettings):
        chain: ChainSetting

    monkeypatch.setenv("CHAIN", "bittensor:test:3")
    assert Settings().chain == BittensorOption("test", 3)  # pyright: ignore[reportCallIssue]


def test_an_option_opens_its_chain(tmp_path: Path):
    assert isinstance(parse_chain(f"local:{tmp_path}/chain").open(lambda: 0.0), LocalChain)
    assert isinstance(parse_chain("bittensor:finney:1").open(lambda: 0.0), BittensorChain)
    with pytest.raises(ChainError, match="nowhere"):
        parse_chain("bittensor:nowhere:1").open(lambda: 0.0)
