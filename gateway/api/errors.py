"""Every refusal as OpenAI's error object: the one place where an error becomes HTTP."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Match, Route

from gateway.api.plain import plain
from gateway.errors import GatewayError

REQUEST_ID_HEADER = "X-Request-ID"
MAX_RETRY_SECONDS = 60

# The official clients retry 408, 409, 429 and 5xx; these are final whatever their status.
FINAL_CODES = frozenset(
    {"idempotency_conflict", "batch_not_cancellable", "pricing_unavailable", "order_limit"}
)
# These pass with time; the seconds after which a client should try again.
PASSING_CODES = {"file_not_ready": 5, "order_refused": 1, "rate_limited": 5}
UNAVAILABLE_RETRY_SECONDS = 5

_STATUS_CODES = {
    404: ("not_found", "There is no such route; see the API reference for the routes that exist."),
    405: ("method_not_allowed", "This route does not answer this method."),
}


def error_type(status: int) -> str:
    """Return the contract's error type of a status."""
    if status >= 500:
        return "server_error"
    names = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    return names.get(status, "invalid_request_error")


def error_object(status: int, code: str, message: str, param: str | None) -> dict[str, Any]:
    """Return OpenAI's error object; ``param`` is a real null where no field is at fault."""
    detail = {"message": message, "type": error_type(status), "param": param, "code": code}
    return {"error": detail}


def retry_headers(error: GatewayError) -> dict[str, str]:
    """Return what tells an official client whether, and when, to try again."""
    if error.final or error.code in FINAL_CODES:
        return {"X-Should-Retry": "false"}
    seconds = error.retry_after or PASSING_CODES.get(error.code)
    if seconds is None and error.status == 503:
        seconds = UNAVAILABLE_RETRY_SECONDS
    if seconds is None:
        return {}
    return {"Retry-After": str(max(1, min(seconds, MAX_RETRY_SECONDS)))}


def error_response(
    error: GatewayError, request_id: str | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return ``error`` as an answer.

    Args:
        error: the refusal.
        request_id: set where the request log does not add it: on answers made outside of it.
        headers: further headers, such as ``Allow``.
    """
    content = error_object(error.status, error.code, error.message, error.param)
    response = JSONResponse(content, error.status, {**retry_headers(error), **(headers or {})})
    if error.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if request_id is not None:
        response.headers[REQUEST_ID_HEADER] = request_id
    return response


def install(app: FastAPI) -> None:
    """Make ``app`` answer every error in this shape, its own and the framework's."""
    app.add_exception_handler(GatewayError, _on_gateway_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(Exception, _on_unforeseen)


async def _on_gateway_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, GatewayError)
    headers = {"Content-Range": error.content_range} if isinstance(error, RangeError) else None
    return error_response(error, headers=headers)


async def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    fallback = ("invalid_request", str(error.detail))
    code, message = _STATUS_CODES.get(error.status_code, fallback)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_methods(request))
    return error_response(GatewayError(error.status_code, code, message), headers=headers)


def _methods(request: Request) -> list[str]:
    """Return every method of a path; the framework names those of its first route alone."""
    found: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] != Match.NONE:
            found |= route.methods or set()
    return sorted(found)


async def _on_invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    param = str(first["loc"][-1])
    return error_response(GatewayError(400, "invalid_request", f"{param}: {plain(first)}", param))


async def _on_unforeseen(request: Request, error: Exception) -> JSONResponse:
    # The framework raises it again after this answer, and the server logs it with its traceback.
    refusal = GatewayError(500, "server_error", "The gateway failed to answer this request.")
    return error_response(refusal, request.scope.get("state", {}).get("request_id"))


class RangeError(GatewayError):
    """416: no byte of the file lies in the range that was asked for."""

    def __init__(self, size: int) -> None:
        message = f"The range lies outside of the file, which has {size} bytes."
        super().__init__(416, "range_not_satisfiable", message, "Range")
        self.content_range = f"bytes */{size}"
