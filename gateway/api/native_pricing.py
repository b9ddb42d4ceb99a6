"""The price of a quote, as its customer sees it."""

from typing import Annotated, Any

from pydantic import Field

from gateway.api.models import ContractObject
from gateway.catalog.price import Price
from gateway.ledger.money import usd_of

Usd = Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]{2,9}$", description="A decimal, in USD.")]


class GpuPricing(ContractObject):
    """The GPU time that verifies the answers, over all GPUs; it is charged once work begins."""

    gpus: int
    hour_usd: Usd
    startup_seconds: int
    run_seconds: int
    usd: Usd


class PromptPricing(ContractObject):
    """The prompt tokens, each line's prompt once; they are charged once work begins."""

    tokens: int
    usd_per_million: Usd
    usd: Usd


class CompletionPricing(ContractObject):
    """The completion tokens of the worst case; of these the verified ones are charged."""

    max_tokens: int
    usd_per_million: Usd
    usd: Usd


class Margin(ContractObject):
    """The platform's share, and what the minimum adds."""

    percent: int
    usd: Usd


class Pricing(ContractObject):
    """What a price is made of: the four ``usd`` add up to it."""

    version: Annotated[str, Field(description="Of the price file.")]
    size: Annotated[str, Field(description="Of the model, as the price file names it.")]
    gpu: GpuPricing
    prompt: PromptPricing
    completion: CompletionPricing
    margin: Margin
    minimum_usd: Usd


class Estimate(ContractObject):
    """What an order comes to where every sample takes half of ``max_tokens``."""

    completion_tokens: int
    price_usd: Usd


def priced(price: Price) -> dict[str, Any]:
    """Return the members of a quote that tell its price."""
    return {
        "price_usd": usd_of(price.reserved),
        "estimate": {
            "completion_tokens": price.expected_tokens,
            "price_usd": usd_of(price.estimate),
        },
        "pricing": price.pricing(),
    }


EXAMPLE = priced(
    Price(
        version="2026-11-30",
        size="up to 10B",
        gpus=1,
        gpu_hour_nano=3_200_000_000,
        startup_seconds=1_800,
        run_seconds=1,
        prompt_tokens=41,
        prompt_token_nano=40,
        samples=2,
        max_tokens=256,
        completion_token_nano=160,
        margin_percent=20,
        minimum_nano=10_000_000,
    )
)
