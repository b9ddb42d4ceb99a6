"""``/api/v1/balance``: a customer's money."""

from typing import Literal

from fastapi import APIRouter
from pydantic import ConfigDict

from gateway.api.auth import Customer
from gateway.api.models import ContractObject
from gateway.api.native_documented import ORDERS, documented
from gateway.api.state import StateOf
from gateway.ledger.balance import balances
from gateway.ledger.money import usd_of

router = APIRouter(tags=[ORDERS])


class BalanceObject(ContractObject):
    """An account's money, in USD: ``credited = available + reserved + charged``.

    ``available_usd`` can be spent, ``reserved_usd`` is held for orders that have not ended,
    ``charged_usd`` was paid for those that have, and ``credited_usd`` was paid in.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "object": "balance",
                    "available_usd": "21.17",
                    "reserved_usd": "1.921",
                    "charged_usd": "1.909",
                    "credited_usd": "25.00",
                }
            ]
        },
    )

    object: Literal["balance"]
    available_usd: str
    reserved_usd: str
    charged_usd: str
    credited_usd: str


@router.get("/balance", summary="Read the balance", **documented())
async def get_balance(principal: Customer, state: StateOf) -> BalanceObject:
    """Return what can be spent, what open orders reserve, and what ended ones were charged."""
    balance = (await balances(state.store, [principal.account_id]))[principal.account_id]
    return BalanceObject(
        object="balance",
        available_usd=usd_of(balance.available),
        reserved_usd=usd_of(balance.reserved),
        charged_usd=usd_of(balance.charged),
        credited_usd=usd_of(balance.credited),
    )
