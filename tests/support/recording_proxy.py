"""A proxy between a client and a gateway that notes every request and its status, one by one."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

SECONDS = 60.0


@dataclass(frozen=True)
class Exchange:
    """One request as it came, and the status that answered it; header names are lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    status: int


class RecordingProxy:
    """The proxy's address, and what went through it since ``clear``."""

    def __init__(self, origin: str) -> None:
        self.exchanges: list[Exchange] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(origin, self.exchanges))
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"

    def clear(self) -> None:
        """Forget what went through."""
        self.exchanges.clear()

    def serve(self) -> None:
        """Serve until stopped."""
        self._server.serve_forever(poll_interval=0.05)

    def stop(self) -> None:
        """Take no more requests."""
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def recording_proxy(origin: str) -> Iterator[RecordingProxy]:
    """Run a proxy in front of the gateway at ``origin``."""
    proxy = RecordingProxy(origin)
    thread = threading.Thread(target=proxy.serve, name="proxy")
    thread.start()
    try:
        yield proxy
    finally:
        proxy.stop()
        thread.join(SECONDS)


def _handler(origin: str, exchanges: list[Exchange]) -> type[BaseHTTPRequestHandler]:
    place = urlsplit(origin)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # A kept-alive connection without requests must not keep the proxy from stopping.
        timeout = SECONDS

        def forward(self) -> None:
            body = self._body()
            upstream = HTTPConnection(place.hostname or "", place.port, timeout=SECONDS)
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                upstream.putheader(name, value)
            # A gateway that refuses an upload by its length does not read it to the end.
            with suppress(BrokenPipeError, ConnectionResetError):
                upstream.endheaders(body)
            answer = upstream.getresponse()
            content = answer.read()
            headers = {name.lower(): value for name, value in self.headers.items()}
            exchanges.append(Exchange(self.command, self.path, headers, body, answer.status))
            self.send_response_only(answer.status, answer.reason)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            upstream.close()

        def _body(self) -> bytes:
            """Return the body as it came, chunks with their frames."""
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", "0")))
            body, size = b"", 1
            while size:
                head = self.rfile.readline()
                size = int(head, 16)
                body += head + self.rfile.read(size + 2)
            return body

        do_GET = do_POST = do_DELETE = forward

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Handler
