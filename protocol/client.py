"""The nodes' HTTP client: signed requests to the gateway, retried while a retry can help."""

from types import TracebackType
from typing import Self, TypeVar

import aiohttp
import stamina
from bittensor_core import Keypair
from pydantic import ValidationError

from protocol.documents import audited_statement, lease_statement
from protocol.http_auth import sign_request
from protocol.keys import verify_statement
from protocol.messages import (
    WIRE_VERSION,
    Announcement,
    AuditLease,
    DemandBoard,
    GatewayIdentity,
    Heartbeat,
    HeartbeatAnswer,
    Lease,
    LeaseRequest,
    Message,
    Receipt,
    Result,
    Verdicts,
    Work,
)

MAX_ANSWER_BYTES = 256 * 1024 * 1024
# An answer that has not started after this long is given up and asked for again.
READ_TIMEOUT_SECONDS = 60.0
CONNECT_TIMEOUT_SECONDS = 10.0
RETRIED_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
# A gateway that asks for more patience than this is not waited for within one call.
MAX_RETRY_AFTER_SECONDS = 60.0

M = TypeVar("M", bound=Message)


class GatewayRefused(Exception):
    """The gateway's final answer to a request: a retry of the same bytes cannot help."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message


class GatewayUnavailable(Exception):
    """The gateway cannot be reached or asks for patience; the same request may pass later.

    ``retry_after`` are the seconds that it asked for, None where it named none.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NodeClient:
    """One node's connection to the gateway; an async context manager.

    Args:
        base_url: the gateway's origin, such as ``https://gateway.example``.
        keypair: the node's hotkey.
        gateway_hotkey: the hotkey that the gateway must have; None takes the one it announces.
        attempts: tries of one call before ``GatewayUnavailable`` is raised, at least 1.
    """

    def __init__(
        self,
        base_url: str,
        keypair: Keypair,
        gateway_hotkey: str | None = None,
        *,
        attempts: int = 5,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._keypair = keypair
        self._wanted_hotkey = gateway_hotkey
        self._gateway_hotkey: str | None = None
        self._attempts = attempts
        self._session: aiohttp.ClientSession | None = None

    @property
    def hotkey(self) -> str:
        """The node's own address."""
        return self._keypair.ss58_address

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_TIMEOUT_SECONDS, sock_read=READ_TIMEOUT_SECONDS
        )
        self._session = aiohttp.ClientSession(timeout=timeout)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def identity(self) -> GatewayIdentity:
        """Ask the gateway who it is and which wire version it speaks."""
        body = await self._retried("GET", "/nodes/v1/gateway", b"", signed=False)
        return _parse(GatewayIdentity, body)

    async def announce(self, announcement: Announcement) -> None:
        """Tell the gateway what this node is and can serve."""
        await self._post("/nodes/v1/announce", announcement)

    async def demand(self, wait_seconds: float = 0) -> DemandBoard:
        """Read the demand board, most urgent first.

        Args:
            wait_seconds: how long the gateway may wait for work where there is none.
        """
        query = f"?wait_seconds={wait_seconds:g}" if wait_seconds else ""
        return _parse(DemandBoard, await self._retried("GET", f"/nodes/v1/demand{query}", b""))

    async def lease_generation(self, request: LeaseRequest) -> Lease | None:
        """Ask for a unit to generate; None when there is no work.

        Raises:
            GatewayRefused: also when the lease does not carry the gateway's valid signature, or is
                of another model commit than the node holds.
        """
        body = await self._post("/nodes/v1/leases", request)
        if not body:
            return None
        lease = _parse(Lease, body)
        _refuse_other_model(request, lease.work)
        statement = lease_statement(
            lease.lease_id, lease.attempt, self.hotkey, lease.issued_at, lease.work
        )
        if not verify_statement(await self._receiver(), statement, lease.signature):
            raise GatewayRefused(502, "bad_lease_signature", "the gateway did not sign this lease")
        return lease

    async def lease_audit(self, request: LeaseRequest) -> AuditLease | None:
        """Ask for a unit to audit; None when nothing waits.

        Raises:
            GatewayRefused: also when the unit is of another model commit than the node holds, or
                when the work is not what the gateway's signed lease record commits to: a verdict
                by other terms than the miner's would blame the miner.
        """
        body = await self._post("/nodes/v1/leases", request)
        if not body:
            return None
        lease = _parse(AuditLease, body)
        _refuse_other_model(request, lease.work)
        gateway, record = await self._receiver(), lease.record
        proven = verify_statement(gateway, audited_statement(lease), record.signature)
        if record.gateway != gateway or not proven:
            raise GatewayRefused(
                502, "bad_lease_signature", "the gateway did not sign the lease of this work"
            )
        return lease

    async def heartbeat(self, lease_id: str, tokens: int) -> HeartbeatAnswer:
        """Renew a lease and report the tokens produced or audited so far."""
        body = await self._post(f"/nodes/v1/leases/{lease_id}/heartbeat", Heartbeat(tokens=tokens))
        return _parse(HeartbeatAnswer, body)

    async def submit_result(self, lease_id: str, result: Result) -> Receipt:
        """Post a unit's tokens; posting the same again gets the same answer."""
        return _parse(Receipt, await self._post(f"/nodes/v1/leases/{lease_id}/result", result))

    async def submit_verdicts(self, lease_id: str, verdicts: Verdicts) -> Receipt:
        """Post a unit's verdicts; posting the same again gets the same answer."""
        return _parse(Receipt, await self._post(f"/nodes/v1/leases/{lease_id}/verdicts", verdicts))

    async def release(self, lease_id: str) -> None:
        """Give a lease back unfinished, so that its unit moves on at once."""
        await self._retried("POST", f"/nodes/v1/leases/{lease_id}/release", b"")

    async def _post(self, path: str, message: Message) -> bytes:
        return await self._retried("POST", path, message.model_dump_json().encode())

    async def _receiver(self) -> str:
        if self._gateway_hotkey is None:
            identity = await self.identity()
            if identity.wire_version != WIRE_VERSION:
                raise GatewayRefused(
                    502,
                    "wire_version",
                    f"the gateway speaks wire version {identity.wire_version}, this node "
                    f"{WIRE_VERSION}: update the older of the two",
                )
            if self._wanted_hotkey not in (None, identity.hotkey):
                raise GatewayRefused(
                    502,
                    "wrong_gateway",
                    f"the gateway at {self._base_url} is {identity.hotkey}, not "
                    f"{self._wanted_hotkey}: correct its address or its hotkey",
                )
            self._gateway_hotkey = identity.hotkey
        return self._gateway_hotkey

    async def _retried(self, method: str, path: str, body: bytes, *, signed: bool = True) -> bytes:
        retries = stamina.retry_context(
            on=patience, attempts=self._attempts, timeout=None, wait_max=10.0
        )
        async for attempt in retries:
            with attempt:
                return await self._once(method, path, body, signed=signed)
        raise GatewayUnavailable(f"{method} {path} was never tried")

    async def _once(self, method: str, path: str, body: bytes, *, signed: bool) -> bytes:
        if self._session is None:
            raise RuntimeError("NodeClient is used inside 'async with'")
        headers = {"Content-Type": "application/json"}
        if signed:
            receiver = await self._receiver()
            # Every try signs a nonce of its own: the gateway takes each nonce once.
            headers |= sign_request(
                self._keypair, method=method, path=path, body=body, receiver=receiver
            )
        try:
            async with self._session.request(
                method,
                self._base_url + path,
                data=body if method != "GET" else None,
                headers=headers,
                allow_redirects=False,
            ) as response:
                content = await _read_bounded(response)
                status = response.status
                retry_after = _seconds(response.headers.get("Retry-After", ""))
        except (TimeoutError, aiohttp.ClientError) as error:
            raise GatewayUnavailable(f"{self._base_url}: {error or 'timed out'}") from error
        if status in RETRIED_STATUSES:
            raise GatewayUnavailable(f"{method} {path} answered {status}", retry_after)
        if status >= 300:
            raise _refusal(status, content)
        return content


def patience(error: Exception) -> bool | float:
    """Say whether a failed try is repeated, or after how many seconds where the gateway said so."""
    if not isinstance(error, GatewayUnavailable):
        return False
    return True if error.retry_after is None else error.retry_after


def _seconds(retry_after: str) -> float | None:
    """Return the seconds of a ``Retry-After`` header, bounded; None where it holds no number."""
    if not (retry_after.isascii() and retry_after.isdecimal()):
        return None
    return min(float(retry_after), MAX_RETRY_AFTER_SECONDS)


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for chunk in response.content.iter_chunked(1 << 16):
        content += chunk
        if len(content) > MAX_ANSWER_BYTES:
            raise GatewayRefused(502, "answer_too_large", "the gateway's answer is past 256 MiB")
    return bytes(content)


def _refuse_other_model(request: LeaseRequest, work: Work) -> None:
    # A node that answered with the model it holds would sign what looks like a cheat.
    if (work.model, work.revision) != (request.loaded.model, request.loaded.revision):
        raise GatewayRefused(
            502, "wrong_model", f"the gateway leased work of {work.model} at {work.revision}"
        )


def _parse(kind: type[M], body: bytes) -> M:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise GatewayRefused(
            502, "bad_answer", f"{kind.__name__}.{place}: {first['msg']}"
        ) from error


class _ErrorDetail(Message):
    message: str = ""
    type: str = ""
    param: str | None = None
    code: str | None = None


class _ErrorEnvelope(Message):
    error: _ErrorDetail


def _refusal(status: int, body: bytes) -> GatewayRefused:
    """Read OpenAI's error object; anything else is reported by its status alone."""
    try:
        detail = _ErrorEnvelope.model_validate_json(body).error
    except ValidationError:
        return GatewayRefused(status, "unknown", "the gateway's answer has no error object")
    return GatewayRefused(status, detail.code or "unknown", detail.message)
