"""What every usable line of a file must share: endpoint, sampling, seed and samples per line."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from gateway.intake.reading import Number, integer, number
from gateway.intake.refusal import LineRefused, shown
from protocol.sampling import MAX_TOKENS_LIMIT, SEED_LIMIT, Sampling

MIN_MAX_TOKENS = 16
MAX_N = 64

_DEFAULTS = Sampling()
DEFAULT_MAX_TOKENS = _DEFAULTS.max_tokens


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one line after defaults and number forms; compared between lines.

    ``top_k`` is 0 for no limit. ``max_tokens`` may be below 16 here: that refuses the file, once
    its lines agree on it.
    """

    endpoint: str
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    max_tokens: int
    seed: int | None
    n: int

    def first_difference(self, other: "Settings") -> str | None:
        """The name of the first member in which two lines differ; None where they are equal."""
        if self == other:
            return None
        for field in fields(self):
            if getattr(self, field.name) != getattr(other, field.name):
                return field.name
        return None

    def sampling(self) -> Sampling:
        """The sampling of the draw; ``max_tokens`` is at least 16 by then."""
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            max_tokens=self.max_tokens,
        )


_REAL = ("temperature", "top_p", "min_p")
_WHOLE = ("top_k", "max_tokens", "max_completion_tokens", "seed", "n")
FIELDS = frozenset(_REAL + _WHOLE)


class SettingsReader:
    """Reads the settings of lines as ``read_settings`` does, equal ones once.

    Args:
        vocabulary_size: V of the draw.
        max_tokens: of a line that sets none.
    """

    def __init__(self, vocabulary_size: int, max_tokens: int) -> None:
        self._vocabulary_size = vocabulary_size
        self._max_tokens = max_tokens
        self._given: list[object] = []
        self._types: list[type] = []
        self._settings: Settings | None = None

    def read(self, endpoint: str, body: Mapping[str, object]) -> Settings:
        """Read the settings of a line's body; see ``read_settings``."""
        given = [endpoint, *map(body.get, _REAL), *map(body.get, _WHOLE)]
        types = list(map(type, given))
        if self._settings is not None and given == self._given and types == self._types:
            return self._settings
        settings = read_settings(endpoint, body, self._vocabulary_size, self._max_tokens)
        # A whole number that is spelled with a fraction may equal, as a float, one that is none.
        if Number not in types[1 + len(_REAL) :]:
            self._given, self._types, self._settings = given, types, settings
        return settings


def read_settings(
    endpoint: str,
    body: Mapping[str, object],
    vocabulary_size: int,
    max_tokens: int = DEFAULT_MAX_TOKENS,
) -> Settings:
    """Read the settings of a line's body; null means omitted.

    Args:
        endpoint: the line's url.
        body: the line's body.
        vocabulary_size: V of the draw; a ``top_k`` at or above it is no limit.
        max_tokens: of a line that sets none.

    Raises:
        LineRefused: ``invalid_<field>`` or ``greedy_unavailable``.
    """
    return Settings(
        endpoint=endpoint,
        temperature=_temperature(body.get("temperature")),
        top_p=_top_p(body.get("top_p")),
        top_k=_top_k(body.get("top_k"), vocabulary_size),
        min_p=_min_p(body.get("min_p")),
        max_tokens=_max_tokens(body, max_tokens),
        seed=_seed(body.get("seed")),
        n=_n(body.get("n")),
    )


def invalid(field: str, allowed: str, found: object) -> LineRefused:
    """The refusal of a field whose value has a wrong type or range."""
    return LineRefused(f"invalid_{field}", f"{field} must be {allowed}; found {shown(found)}.")


def _temperature(value: object) -> float:
    if value is None:
        return _DEFAULTS.temperature
    figure = number(value)
    if figure is not None and figure == 0:
        raise LineRefused(
            "greedy_unavailable",
            "temperature 0 is not offered: tokens are always drawn; "
            "a number above 0 and up to 4 is allowed.",
        )
    if figure is None or not 0 < figure <= 4:
        raise invalid("temperature", "a number above 0 and up to 4", value)
    return float(figure)


def _top_p(value: object) -> float:
    if value is None:
        return _DEFAULTS.top_p
    figure = number(value)
    if figure is None or not 0 < figure <= 1:
        raise invalid("top_p", "a number above 0 and up to 1", value)
    return float(figure)


def _min_p(value: object) -> float:
    if value is None:
        return _DEFAULTS.min_p
    figure = number(value)
    if figure is None or not 0 <= figure < 1:
        raise invalid("min_p", "a number from 0 up to, not including, 1", value)
    return abs(float(figure))  # the two zeros of floating point are one sampling


def _top_k(value: object, vocabulary_size: int) -> int:
    if value is None:
        return _DEFAULTS.top_k
    figure = integer(value)
    if figure is None or figure < -1:
        raise invalid("top_k", "a positive integer, or 0 or -1 for no limit", value)
    return 0 if figure == -1 or figure >= vocabulary_size else figure


def _max_tokens(body: Mapping[str, object], default: int) -> int:
    limits = {
        field: _token_limit(field, body[field])
        for field in ("max_tokens", "max_completion_tokens")
        if body.get(field) is not None
    }
    if len(set(limits.values())) > 1:
        raise LineRefused(
            "invalid_max_tokens",
            "max_tokens and max_completion_tokens must be equal where both are set; found "
            f"{shown(body['max_tokens'])} and {shown(body['max_completion_tokens'])}.",
        )
    return next(iter(limits.values()), default)


def _token_limit(field: str, value: object) -> int:
    figure = integer(value)
    if figure is None or figure > MAX_TOKENS_LIMIT:
        raise LineRefused(
            "invalid_max_tokens",
            f"{field} must be an integer from {MIN_MAX_TOKENS} to {MAX_TOKENS_LIMIT:,}; "
            f"found {shown(value)}.",
        )
    return figure


def _seed(value: object) -> int | None:
    if value is None:
        return None
    figure = integer(value)
    if figure is None or not 0 <= figure < SEED_LIMIT:
        raise invalid("seed", f"an integer from 0 to {SEED_LIMIT - 1:,}", value)
    return figure


def _n(value: object) -> int:
    if value is None:
        return 1
    figure = integer(value)
    if figure is None or not 1 <= figure <= MAX_N:
        raise invalid("n", f"an integer from 1 to {MAX_N}", value)
    return figure
