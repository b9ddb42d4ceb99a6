"""The price of one order: all that its charge follows from, whatever becomes of the price file.

    total(tokens) = max(minimum, ceil((gpu + prompt + tokens * completion) * (1 + margin)))

is reserved for ``max_tokens`` of every sample and charged for the tokens that were verified, or
nothing where none was. All
amounts are whole nano-USD; the GPU time and the sum with the margin are rounded up, nothing else.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from gateway.ledger.money import usd_of

HOUR_SECONDS = 3_600
MILLION = 10**6
PERCENT = 100

Amount = Annotated[int, Field(ge=0)]


class Price(BaseModel):
    """What an order was quoted, kept with it as JSON.

    Attributes:
        version: of the price file.
        size: the price file's name for the model's size.
        gpus, gpu_hour_nano: GPUs that verify, and the price of each for an hour, in nano-USD.
        startup_seconds, run_seconds: how long they are expected to take for it.
        prompt_tokens: of all usable lines, each line's prompt once.
        prompt_token_nano, completion_token_nano: nano-USD for one token.
        samples, max_tokens: completions, and the most tokens of each.
        margin_percent: of everything else.
        minimum_nano: no order that is charged costs less.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    type: Literal["reliquary-price/1"] = "reliquary-price/1"
    version: str
    size: str
    gpus: Amount
    gpu_hour_nano: Amount
    startup_seconds: Amount
    run_seconds: Amount
    prompt_tokens: Amount
    prompt_token_nano: Amount
    samples: Amount
    max_tokens: Amount
    completion_token_nano: Amount
    margin_percent: Amount
    minimum_nano: Amount

    @property
    def most_tokens(self) -> int:
        """The completion tokens of the worst case: every sample takes ``max_tokens``."""
        return self.samples * self.max_tokens

    @property
    def expected_tokens(self) -> int:
        """The completion tokens that are expected: half of the worst case, rounded up."""
        return -(-self.most_tokens // 2)

    @property
    def gpu_nano(self) -> int:
        """The GPU time, rounded up."""
        seconds = self.startup_seconds + self.run_seconds
        return -(-self.gpus * self.gpu_hour_nano * seconds // HOUR_SECONDS)

    @property
    def prompt_nano(self) -> int:
        """The prompt tokens."""
        return self.prompt_tokens * self.prompt_token_nano

    def total(self, completion_tokens: int) -> int:
        """Return what the order costs with so many completion tokens, in nano-USD."""
        parts = self.gpu_nano + self.prompt_nano + completion_tokens * self.completion_token_nano
        return max(self.minimum_nano, -(-parts * (PERCENT + self.margin_percent) // PERCENT))

    def charge(self, verified_tokens: int) -> int:
        """Return what is charged for so many verified tokens, in nano-USD: nothing for none."""
        return self.total(verified_tokens) if verified_tokens else 0

    @property
    def reserved(self) -> int:
        """The worst case in nano-USD: what is held when the order is placed."""
        return self.total(self.most_tokens)

    @property
    def estimate(self) -> int:
        """The same for half of ``max_tokens`` a sample."""
        return self.total(self.expected_tokens)

    def pricing(self) -> dict[str, Any]:
        """Return the breakdown of ``reserved`` as JSON; its four ``usd`` add up to it."""
        completion = self.most_tokens * self.completion_token_nano
        rest = self.reserved - self.gpu_nano - self.prompt_nano - completion
        return {
            "version": self.version,
            "size": self.size,
            "gpu": {
                "gpus": self.gpus,
                "hour_usd": usd_of(self.gpu_hour_nano),
                "startup_seconds": self.startup_seconds,
                "run_seconds": self.run_seconds,
                "usd": usd_of(self.gpu_nano),
            },
            "prompt": {
                "tokens": self.prompt_tokens,
                "usd_per_million": usd_of(self.prompt_token_nano * MILLION),
                "usd": usd_of(self.prompt_nano),
            },
            "completion": {
                "max_tokens": self.most_tokens,
                "usd_per_million": usd_of(self.completion_token_nano * MILLION),
                "usd": usd_of(completion),
            },
            "margin": {"percent": self.margin_percent, "usd": usd_of(rest)},
            "minimum_usd": usd_of(self.minimum_nano),
        }

    def to_json(self) -> str:
        """Return the price as an order keeps it."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> "Price":
        """Return the price that ``to_json`` wrote.

        Raises:
            ValueError: it is none.
        """
        return cls.model_validate_json(text)
