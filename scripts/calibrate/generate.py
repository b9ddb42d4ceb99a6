"""Honest samples of an engine in all the ways that nodes run it, seen by an audit."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from miner.engines.base import ENGINE_FACTORIES, EngineSettings
from miner.engines.process import EngineProcess
from protocol.messages import EngineName, Stack
from protocol.repository.facts import ModelFacts
from scripts.calibrate.measure import Seen, seen
from scripts.calibrate.orders import orders
from validator.forward import Forward

# How nodes differ without changing what they compute: batch, threads, prefill in chunks, prefix
# caching, and a memory so small that samples are preempted and computed again.
VLLM_MODES = (
    {},
    {"max_batch": 256, "threads": 2},
    {"max_batch": 8, "options": {"enable_prefix_caching": False}},
    {"options": {"max_num_batched_tokens": 256, "enable_chunked_prefill": True}},
    {"max_batch": 32, "memory_gib": 0.05, "max_model_len": 8_192},
    {"max_batch": 1},
)
OTHER_MODES = ({}, {"max_batch": 256}, {"max_batch": 8}, {"max_batch": 1})
# What a batch of one yields is slow to come by: it gets this share of the tokens of the others.
LONE_SHARE = 0.03
MAX_TOKENS = 192

Progress = Callable[[int], None]


async def honest(
    folder: Path,
    facts: ModelFacts,
    engine: EngineName,
    dtype: str,
    forward: Forward,
    tokens: int,
    progress: Progress,
) -> tuple[Stack, list[Seen]]:
    """Return the stack that generated, and what an audit sees of some ``tokens`` of its tokens.

    Args:
        folder: the snapshot.
        facts: of the model at its revision.
        engine: what generates.
        dtype: of the engine.
        forward: the model as the validator has it.
        tokens: how many at least.
        progress: called with the tokens seen since its last call.
    """
    modes = VLLM_MODES if engine == "vllm" else OTHER_MODES
    shares = [LONE_SHARE if mode.get("max_batch") == 1 else 1.0 for mode in modes]
    found: list[Seen] = []
    stack: Stack | None = None
    for number, (mode, share) in enumerate(zip(modes, shares, strict=True)):
        settings = EngineSettings.model_validate({"dtype": dtype, "threads": 1, **mode})
        due = int(tokens * share / sum(shares))
        async for its_stack, part in _run(folder, facts, engine, settings, forward, due, number):
            stack = its_stack
            found += part
            progress(sum(len(sample.margins) for sample in part))
    if stack is None:
        raise ValueError("a calibration needs at least one token a mode")
    return stack, found


async def _run(
    folder: Path,
    facts: ModelFacts,
    engine: EngineName,
    settings: EngineSettings,
    forward: Forward,
    tokens: int,
    seed: int,
) -> AsyncIterator[tuple[Stack, list[Seen]]]:
    with tempfile.TemporaryDirectory() as logs:
        process = await EngineProcess.start(
            ENGINE_FACTORIES[engine],
            folder,
            facts.model,
            facts.revision,
            settings,
            Path(logs) / "engine.log",
        )
        try:
            drawn = 0
            for order in orders(folder, facts, max_tokens=MAX_TOKENS, seed=seed):
                samples = await process.generate(order.work, lambda tokens: None)
                yield process.stack, await asyncio.to_thread(seen, order.work, samples, forward)
                drawn += sum(map(len, samples))
                if drawn >= tokens:
                    return
        finally:
            await process.close()
