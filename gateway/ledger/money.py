"""USD as a person and the API write them, nano-USD as everything inside counts: one way each."""

import re

NANO = 10**9
MAX_NANO = 2**63 - 1
DECIMALS = 9

_USD = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?", re.ASCII)
_CENTS = 2


class MoneyError(ValueError):
    """A text is no amount of USD."""


def nano_of(usd: str) -> int:
    """Return an amount such as ``"3"`` or ``"0.000000001"`` in nano-USD, exactly.

    Raises:
        MoneyError: it is no decimal of up to 9 digits before and after the point.
    """
    match = _USD.fullmatch(usd)
    if match is None:
        raise MoneyError(
            f"{usd[:40]!r} is no amount in USD; write it as 3.50, with up to 9 digits before and "
            "after the point and no sign"
        )
    return int(match[1]) * NANO + int((match[2] or "").ljust(DECIMALS, "0"))


def usd_of(nano: int) -> str:
    """Return an amount of at least 0 nano-USD in USD, exactly: two decimals, or all it needs."""
    if nano < 0:
        raise ValueError(f"{nano} nano-USD is less than nothing")
    whole, part = divmod(nano, NANO)
    return f"{whole}.{str(part).zfill(DECIMALS).rstrip('0').ljust(_CENTS, '0')}"
