"""The logits processors of both vLLM runners over rows of logits, without a model.

The V2 runner needs a GPU; its ``LogitsContext`` is made by hand here, as the interface has it.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate, MoveDirectionality

from miner.engines.draw_table import DrawInputs, DrawTable
from miner.engines.forced_draw import EXTRA_ARGS_KEY, ForcedDraw
from miner.engines.forced_draw_v2 import ForcedDrawV2
from protocol.draw.reference import draw
from protocol.sampling import Sampling

V, PADDED, SLOTS = 500, 512, 8
CPU = torch.device("cpu")
SAMPLINGS = [
    Sampling(),
    Sampling(temperature=0.6, top_k=20, top_p=0.95),
    Sampling(temperature=2.5, min_p=0.02),
    Sampling(temperature=0.3, top_p=0.5),
]


def key(number: int) -> bytes:
    return bytes([number]) * 32


def params(number: int, **more: object) -> SamplingParams:
    inputs = DrawInputs.of(key(number), SAMPLINGS[number % len(SAMPLINGS)], V)
    fields = {"temperature": 0.0, "extra_args": {EXTRA_ARGS_KEY: inputs.to_plain()}}
    return SamplingParams(**(fields | more))


def logits(rows: int, seed: int = 0) -> torch.Tensor:
    # Padding columns are the largest, so that a draw from them would show.
    values = torch.randn(rows, PADDED, generator=torch.Generator().manual_seed(seed)) * 3
    values[:, V:] = 50.0
    return values


def expected(row: torch.Tensor, number: int, position: int) -> int:
    sampling = SAMPLINGS[number % len(SAMPLINGS)]
    return draw(row[:V].numpy().astype(np.float64), key(number), position, sampling)


def v1() -> ForcedDraw:
    config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=SLOTS))
    return ForcedDraw(config, CPU, False)


def update(size: int, removed=(), added=(), moved=()) -> BatchUpdate:
    return BatchUpdate(batch_size=size, removed=removed, added=added, moved=moved)


def forced(processor: ForcedDraw, values: torch.Tensor) -> list[int]:
    return processor.apply(values.clone()).argmax(dim=1).tolist()


def test_v1_follows_additions_removals_and_moves():
    processor = v1()
    outputs = [[], [1, 2], [3], [4, 5, 6], [7]]
    added = [(slot, params(slot), None, outputs[slot]) for slot in range(4)]
    processor.update_state(update(4, added=added))
    values = logits(4)
    assert forced(processor, values) == [
        expected(values[slot], slot, len(outputs[slot])) for slot in range(4)
    ]
    # vLLM's own lists grow in place: positions follow them.
    outputs[0].append(9)
    assert forced(processor, values)[0] == expected(values[0], 0, 1)
    # Request 1 ends, request 4 takes its row, rows 0 and 2 swap.
    swap = [(0, 2, MoveDirectionality.SWAP)]
    processor.update_state(
        update(4, removed=[1], added=[(1, params(4), None, outputs[4])], moved=swap)
    )
    order = [2, 4, 0, 3]
    assert forced(processor, values) == [
        expected(values[row], number, len(outputs[number])) for row, number in enumerate(order)
    ]
    # The last row moves down into a hole.
    processor.update_state(
        update(3, removed=[0], moved=[(3, 0, MoveDirectionality.UNIDIRECTIONAL)])
    )
    values = logits(3, seed=1)
    assert forced(processor, values) == [
        expected(values[row], number, len(outputs[number])) for row, number in enumerate([3, 4, 0])
    ]


def test_v1_refuses_rows_without_a_request():
    processor = v1()
    processor.update_state(update(1, added=[(0, params(0), None, [])]))
    with pytest.raises(RuntimeError, match="2 rows of logits, but 1 requests"):
        processor.apply(logits(2))


def test_v2_finds_inputs_by_slot_and_position_by_length():
    prompt_lengths = torch.tensor([3, 10, 4, 7, 1, 1, 1, 1], dtype=torch.int32)
    states = SimpleNamespace(
        max_num_reqs=SLOTS, device=CPU, prompt_len=SimpleNamespace(gpu=prompt_lengths)
    )
    processor = ForcedDrawV2(SimpleNamespace(), states)
    for slot in range(4):
        assert processor.add_request(slot, params(slot))
    processor.apply_staged_writes()
    slots = [2, 0, 3]
    # The last id fed stands at its place in the sequence: the first completion token is due at 0.
    places = [3, 7, 6]
    context = SimpleNamespace(
        expanded_idx_mapping=torch.tensor(slots, dtype=torch.int32),
        pos=torch.tensor(places, dtype=torch.int64),
    )
    values = logits(3)
    drawn = processor.apply(values.clone(), context).argmax(dim=1).tolist()
    assert drawn == [
        expected(values[0], 2, 0),
        expected(values[1], 0, 5),
        expected(values[2], 3, 0),
    ]


@pytest.mark.parametrize(
    "foreign",
    [
        {"temperature": 0.5},
        {"repetition_penalty": 1.2},
        {"presence_penalty": 0.1},
        {"frequency_penalty": 0.1},
        {"logit_bias": {3: 1.0}},
        {"allowed_token_ids": [1, 2]},
        {"min_tokens": 2},
        {"bad_words": ["no"]},
        {"thinking_token_budget": 5},
    ],
)
def test_what_the_draw_does_not_know_is_refused(foreign):
    with pytest.raises(ValueError, match=next(iter(foreign))):
        ForcedDraw.validate_params(params(0, **foreign))


@pytest.mark.parametrize(
    ("extra_args", "message"),
    [
        (None, "only draws by key"),
        ({EXTRA_ARGS_KEY: {"key": [1, 2, 3, 4]}}, "incomplete"),
        ({EXTRA_ARGS_KEY: DrawInputs((1, 2, 3, 2**32), 1.0, 0, 1.0, 0.0, V).to_plain()}, "key"),
        ({EXTRA_ARGS_KEY: DrawInputs((1, 2, 3, 4), 0.0, 0, 1.0, 0.0, V).to_plain()}, "temperature"),
    ],
)
def test_requests_without_sound_draw_inputs_are_refused(extra_args, message):
    with pytest.raises(ValueError, match=message):
        ForcedDraw.validate_params(SamplingParams(temperature=0.0, extra_args=extra_args))


def test_logits_that_are_no_distribution_stop_the_engine():
    table = DrawTable(1, CPU)
    table.put(0, DrawInputs.of(key(1), Sampling(), V))
    values = logits(1)
    values[0, 7] = float("nan")
    with pytest.raises(RuntimeError, match="NaN"):
        table.draw(values, slice(0, 1), torch.zeros(1, dtype=torch.int64))
