"""What may stand on a chain as the place where a hotkey is reached."""

from urllib.parse import urlsplit

from protocol.chain.base import ChainError

# What one commitment of the chain holds.
MAX_ENDPOINT_BYTES = 128


def checked_endpoint(url: str) -> str:
    """Return ``url`` without its last slash if it is an origin (``https://host[:port]``).

    Raises:
        ChainError: it is not, or does not fit into a commitment.
    """
    plain = url.removesuffix("/")
    try:
        parts = urlsplit(plain)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        port_is_valid = False
        parts = urlsplit("")
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or not port_is_valid
        or plain != f"{parts.scheme}://{parts.netloc}"
        or "@" in parts.netloc
        or not plain.isascii()
        or not plain.isprintable()
        or " " in plain
    ):
        raise ChainError(f"{url[:200]!r} is not an origin such as https://gateway.example")
    if len(plain) > MAX_ENDPOINT_BYTES:
        raise ChainError(f"an endpoint has at most {MAX_ENDPOINT_BYTES} characters; {plain!r}")
    return plain
