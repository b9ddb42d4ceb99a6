"""The sampling of an order: how logits become a distribution, and where a sample must end."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MAX_TOKENS_LIMIT = 131_072
SEED_LIMIT = 2**53

Seed = Annotated[int, Field(ge=0, lt=SEED_LIMIT, strict=True)]


class Sampling(BaseModel):
    """Parameters of the forced draw, equal for every sample of an order.

    Source: the forced draw, section 3. ``temperature`` is above 0 (there is no greedy draw),
    ``top_k`` 0 keeps all ids, ``top_p`` 1 keeps all, ``min_p`` 0 keeps all. ``max_tokens`` is the
    most ids a sample may have.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    temperature: float = Field(default=1.0, gt=0, le=4)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=0, lt=2**31, strict=True)
    min_p: float = Field(default=0.0, ge=0, lt=1)
    max_tokens: int = Field(default=4_096, ge=1, le=MAX_TOKENS_LIMIT, strict=True)
