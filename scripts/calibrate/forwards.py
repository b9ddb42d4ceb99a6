"""The validator's side of a measurement, on either engine."""

from pathlib import Path

from protocol.messages import EngineName
from validator import transformers_forward, vllm_forward
from validator.forward import Forward


def load_forward(engine: EngineName, folder: Path, dtype: str | None) -> Forward:
    """Load the model in ``folder`` as a validator on ``engine`` has it.

    Raises:
        UnsupportedModel: the engine cannot compute it.
        ForwardFailed: it does not fit in memory, or its files cannot be read.
    """
    if engine == "vllm":
        # As the miner's engine beside it: one thread of the processor.
        return vllm_forward.load(folder, dtype, threads=1)
    return transformers_forward.load(folder, dtype)
