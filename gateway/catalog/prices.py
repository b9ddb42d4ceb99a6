"""The price file: what a model of a size costs, and the price of an order by it."""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from gateway.catalog.price import MILLION, Price
from gateway.errors import GatewayError
from gateway.ledger.money import nano_of

SHIPPED = Path(__file__).with_name("prices.toml")


class PriceFileError(ValueError):
    """The price file cannot be used; the message names the place and what is allowed."""


def _read_usd(value: Any) -> int:
    if not isinstance(value, str):
        raise ValueError('must be a text such as "3.50", which keeps it exact')
    return nano_of(value)


def _read_token_price(value: Any) -> int:
    nano, rest = divmod(_read_usd(value), MILLION)
    if rest:
        raise ValueError("may have 3 decimals, since a token costs whole nano-USD")
    return nano


Usd = Annotated[int, BeforeValidator(_read_usd)]
TokenPrice = Annotated[int, BeforeValidator(_read_token_price)]
Name = Annotated[str, Field(min_length=1, max_length=80)]


class SizePrice(BaseModel):
    """What models of up to ``max_parameters`` cost; see ``prices.toml``."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    name: Name
    max_parameters: Annotated[int, Field(ge=1)]
    gpus: Annotated[int, Field(ge=1, le=1_024)]
    gpu_hour_usd: Usd
    startup_seconds: Annotated[int, Field(ge=0)]
    tokens_per_second: Annotated[int, Field(ge=1)]
    prompt_usd_per_million: TokenPrice
    completion_usd_per_million: TokenPrice


class PriceList(BaseModel):
    """A whole price file, its amounts in nano-USD; those of tokens for one token."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    version: Name
    minimum_usd: Usd
    margin_percent: Annotated[int, Field(ge=0, le=1_000)]
    sizes: Annotated[list[SizePrice], Field(min_length=1)]

    @model_validator(mode="after")
    def _sizes_rise(self) -> Self:
        most = [size.max_parameters for size in self.sizes]
        if most != sorted(set(most)):
            raise ValueError("max_parameters must rise from each of the sizes to the next")
        return self

    def price(
        self, parameters: int, *, prompt_tokens: int, lines: int, n: int, max_tokens: int
    ) -> Price:
        """Return the price of an order.

        The GPUs are expected to audit each sample's prompt, and half of ``max_tokens``.

        Args:
            parameters: of the model.
            prompt_tokens: of all usable lines, each line's prompt once.
            lines: usable lines.
            n: samples of each line.
            max_tokens: most completion tokens of each sample.

        Raises:
            GatewayError: 409 ``pricing_unavailable``.
        """
        size = next((size for size in self.sizes if parameters <= size.max_parameters), None)
        if size is None:
            raise GatewayError(
                409,
                "pricing_unavailable",
                f"There is no price for a model of {parameters:,} parameters; the largest with one "
                f"has {self.sizes[-1].max_parameters:,}.",
                final=True,
            )
        audited = n * prompt_tokens + -(-lines * n * max_tokens // 2)
        return Price(
            version=self.version,
            size=size.name,
            gpus=size.gpus,
            gpu_hour_nano=size.gpu_hour_usd,
            startup_seconds=size.startup_seconds,
            run_seconds=-(-audited // size.tokens_per_second),
            prompt_tokens=prompt_tokens,
            prompt_token_nano=size.prompt_usd_per_million,
            samples=lines * n,
            max_tokens=max_tokens,
            completion_token_nano=size.completion_usd_per_million,
            margin_percent=self.margin_percent,
            minimum_nano=self.minimum_usd,
        )


def load_prices(path: Path | None = None) -> PriceList:
    """Return the prices in a file, by default those that come with the gateway.

    Raises:
        PriceFileError: it cannot be read, or something in it is not as it must be.
    """
    file = path or SHIPPED
    try:
        content = tomllib.loads(file.read_text("utf-8"))
        return PriceList.model_validate(content)
    except OSError as error:
        raise PriceFileError(f"the price file {file} cannot be read ({error.strerror})") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        reason = first["msg"].removeprefix("Value error, ")
        raise PriceFileError(f"the price file {file}: {place}: {reason}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PriceFileError(f"the price file {file} is no TOML: {error}") from error
