"""The draw key: the published vectors, the encoding, and refused inputs."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.draw.key import draw_key, key_words, prompt_digest

VECTORS = json.loads((Path(__file__).parent / "forced-draw.vectors.json").read_text())
REVISION = "b968826d9c46dd6066d109eabc6255188de91218"


@pytest.mark.parametrize("vector", VECTORS["keys"])
def test_keys_of_the_vectors(vector: dict):
    digest = prompt_digest(vector["prompt_token_ids"])
    key = draw_key(vector["revision"], vector["seed"], digest, vector["sample_index"])
    assert key.hex() == vector["key"]


def test_the_encoding_byte_by_byte():
    encoded = (
        b"reliquary-draw/1"
        + REVISION.encode()
        + b"\x00\x00\x00\x00\x00\x00\x01\x02"
        + sha256(b"\x05\x00\x00\x00\x00\x01\x00\x00").digest()
        + b"\x00\x00\x00\x03"
    )
    assert draw_key(REVISION, 0x102, prompt_digest([5, 256]), 3) == sha256(encoded).digest()


def test_words_are_little_endian():
    assert key_words(bytes(range(32))).tolist() == [0x03020100, 0x07060504, 0x0B0A0908, 0x0F0E0D0C]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((REVISION.upper(), 0, bytes(32), 0), "revision must be 40 lower-case hex digits"),
        ((REVISION[:39], 0, bytes(32), 0), "revision must be 40 lower-case hex digits"),
        ((REVISION, -1, bytes(32), 0), "seed must lie in"),
        ((REVISION, 2**53, bytes(32), 0), "seed must lie in"),
        ((REVISION, 0, bytes(31), 0), "32 bytes"),
        ((REVISION, 0, bytes(32), 2**32), "sample_index must lie in"),
        ((REVISION, 0, bytes(32), -1), "sample_index must lie in"),
    ],
)
def test_out_of_range_fields_are_named(arguments: tuple, message: str):
    with pytest.raises(ValueError, match=message):
        draw_key(*arguments)


@pytest.mark.parametrize("ids", [[-1], [2**32]])
def test_prompt_ids_past_32_bits_are_refused(ids: list[int]):
    with pytest.raises(ValueError, match="prompt token ids"):
        prompt_digest(ids)


fields = st.tuples(
    st.text("0123456789abcdef", min_size=40, max_size=40),
    st.integers(0, 2**53 - 1),
    st.lists(st.integers(0, 2**32 - 1), max_size=4),
    st.integers(0, 2**32 - 1),
)


@given(one=fields, other=fields)
def test_different_inputs_have_different_keys(one: tuple, other: tuple):
    def keyed(field: tuple) -> bytes:
        revision, seed, ids, index = field
        return draw_key(revision, seed, prompt_digest(ids), index)

    assert (keyed(one) == keyed(other)) == (one == other)
