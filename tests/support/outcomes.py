"""What tests of orders look at: an order's counts, and how a call is refused."""

import pytest

from gateway.errors import GatewayError


def counts(order) -> tuple[int, int, int, int]:
    return (
        order.samples_verified,
        order.samples_void,
        order.samples_missing,
        order.lines_completed,
    )


async def refused(call, status: int, code: str) -> str:
    with pytest.raises(GatewayError) as error:
        await call
    assert (error.value.status, error.value.code) == (status, code)
    return error.value.message
