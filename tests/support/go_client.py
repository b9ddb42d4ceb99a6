"""Raw HTTP in the shape of openai-go: its headers, multipart form, retries and error reading.

The form is built in memory and sent with its length; fields are sorted by name, so the file comes
before the purpose. A POST without a body says so with a length of 0. Requests that fail with 408,
409, 429 or 5xx are sent again, twice at most, unless ``X-Should-Retry`` says otherwise.
"""

import json
import secrets
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

VERSION = "3.52.0"
RETRIED = (408, 409, 429)
PLATFORM = {
    "User-Agent": f"OpenAI/Go {VERSION}",
    "X-Stainless-Lang": "go",
    "X-Stainless-Package-Version": VERSION,
    "X-Stainless-OS": "Linux",
    "X-Stainless-Arch": "x64",
    "X-Stainless-Runtime": "go",
    "X-Stainless-Runtime-Version": "go1.25.1",
}


class GoError(Exception):
    """An answer of 400 or more, as the client's one error type tells it."""

    def __init__(self, status: int, content: bytes, request_id: str | None) -> None:
        super().__init__(status, content)
        error = json.loads(content)["error"]
        # Texts of the client's error; a null reads as an empty one.
        self.told = {name: error[name] or "" for name in ("code", "param", "type", "message")}
        self.status = status
        self.request_id = request_id


class GoClient:
    """A client of one key; connections are kept alive and used again."""

    def __init__(self, base_url: str, api_key: str, max_retries: int = 2) -> None:
        place = urlsplit(base_url)
        self._connection = HTTPConnection(place.hostname or "", place.port, timeout=120)
        self._path = place.path.rstrip("/") + "/"
        self.key = api_key
        self._max_retries = max_retries

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def upload(self, path: str, purpose: str) -> Any:
        """Upload a file that was opened by its path."""
        boundary = secrets.token_hex(30)
        head = (
            f"--{boundary}\r\n"
            f'Content-Disposition: form-data; name="file"; filename="{Path(path).name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        )
        tail = (
            f"\r\n--{boundary}\r\n"
            f'Content-Disposition: form-data; name="purpose"\r\n\r\n{purpose}\r\n'
            f"--{boundary}--\r\n"
        )
        body = head.encode() + Path(path).read_bytes() + tail.encode()
        kind = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        return json.loads(self._send("POST", "files", body, kind))

    def file(self, id: str) -> Any:
        """Read a file's object."""
        return self._get(f"files/{id}")

    def files(self) -> list[Any]:
        """List all files."""
        return self._all("files", {})

    def content(self, id: str) -> str:
        """Download a file."""
        headers = {"Accept": "application/binary"}
        return self._send("GET", f"files/{id}/content", None, headers).decode()

    def create(self, headers: dict[str, str] | None = None, **body: Any) -> Any:
        """Create a batch."""
        ordered = {name: body[name] for name in sorted(body)}
        content = json.dumps(ordered, ensure_ascii=False, separators=(",", ":")).encode()
        kind = {"Content-Type": "application/json"} | (headers or {})
        return json.loads(self._send("POST", "batches", content, kind))

    def batch(self, id: str) -> Any:
        """Read a batch."""
        return self._get(f"batches/{id}")

    def batches(self, **query: Any) -> list[Any]:
        """List all batches, page by page."""
        return self._all("batches", query)

    def cancel(self, id: str) -> Any:
        """Cancel a batch."""
        return json.loads(self._send("POST", f"batches/{id}/cancel", None, {}))

    def _get(self, path: str) -> Any:
        return json.loads(self._send("GET", path, None, {}))

    def _all(self, path: str, query: dict[str, Any]) -> list[Any]:
        rows: list[Any] = []
        while True:
            page = self._get(f"{path}?{urlencode(query)}" if query else path)
            rows += page["data"]
            if not page["data"] or not page["has_more"]:
                return rows
            query = query | {"after": page["data"][-1]["id"]}

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> bytes:
        for tried in range(self._max_retries + 1):
            status, content, answered = self._once(method, path, body, headers, tried)
            if status < 400:
                return content
            if tried == self._max_retries or not _retried(status, answered):
                break
            time.sleep(float(answered.get("retry-after", 0.5 * 2**tried)))
        raise GoError(status, content, answered.get("x-request-id"))

    def _once(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], tried: int
    ) -> tuple[int, bytes, dict[str, str]]:
        sent = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "Authorization": f"Bearer {self.key}",
            "X-Stainless-Retry-Count": str(tried),
            **PLATFORM,
            **headers,
        }
        if method == "POST":
            sent["Content-Length"] = str(len(body or b""))
        self._connection.request(method, self._path + path, body, sent)
        answer = self._connection.getresponse()
        answered = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, answer.read(), answered


def _retried(status: int, headers: dict[str, str]) -> bool:
    if headers.get("x-should-retry") in ("true", "false"):
        return headers["x-should-retry"] == "true"
    return status in RETRIED or status >= 500
