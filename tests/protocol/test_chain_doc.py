"""The figures in ``docs/chain.md`` are the code's."""

from pathlib import Path

import pytest

from protocol.chain import bittensor_chain, bittensor_subnet, endpoint
from protocol.chain.base import U16_MAX
from validator import weights

PAGE = (Path(__file__).parents[2] / "docs" / "chain.md").read_text("utf-8")


@pytest.mark.parametrize(
    "sentence",
    [
        f"a read within {bittensor_chain.READ_SECONDS:.0f} s",
        f"a submission with its finality within {bittensor_chain.SUBMIT_SECONDS:.0f} s",
        f"A newest block older than {bittensor_subnet.STALE_SECONDS:.0f} s",
        f"an origin of at most {endpoint.MAX_ENDPOINT_BYTES} characters",
        f"the largest {U16_MAX:,}, each rounded down",
        f"do not count {weights.GRACE_BLOCKS} blocks after they were due",
    ],
)
def test_the_page_says_what_the_code_does(sentence: str):
    assert sentence in PAGE
