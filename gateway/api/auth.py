"""API keys on customers' routes."""

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from gateway.api.state import StateOf
from gateway.api_keys import ORDERS_WRITE, Principal, authenticate, invalid_key, require_scope
from gateway.errors import GatewayError

_bearer = HTTPBearer(
    scheme_name="workspaceKey",
    bearerFormat="rlq_ followed by 48 hexadecimal characters",
    description="Account workspace key with orders:write (the OpenAI SDK api_key).",
    auto_error=False,
)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]


async def customer(request: Request, state: StateOf, credentials: Credentials) -> Principal:
    """Return whose key the request carries.

    Raises:
        GatewayError: 401 or 403; a request with several Authorization headers has none.
    """
    if credentials is None or len(request.headers.getlist("authorization")) != 1:
        raise invalid_key()
    principal = await authenticate(state.store, credentials.credentials, state.now_ms())
    require_scope(principal, ORDERS_WRITE)
    return principal


async def openrelay_customer(
    request: Request, state: StateOf, credentials: Credentials
) -> Principal:
    """Return whose key the request carries; to a closed account these routes do not exist.

    Raises:
        GatewayError: 401, 403 for a key without the scope, or 404.
    """
    try:
        return await customer(request, state, credentials)
    except GatewayError as error:
        if error.code != "orders_unavailable":
            raise
        raise GatewayError(404, error.code, error.message) from error


Customer = Annotated[Principal, Depends(customer)]
OpenRelayCustomer = Annotated[Principal, Depends(openrelay_customer)]
