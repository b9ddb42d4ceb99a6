"""Ctrl-C and SIGTERM as one exception, so that what was started is stopped on the way out."""

import signal


class Stopped(BaseException):
    """The user asked for the end."""


def stop_on_signal() -> None:
    """Make the first Ctrl-C or SIGTERM raise ``Stopped`` in the main thread; further ones wait."""

    def stop(number: int, frame: object) -> None:
        for other in (signal.SIGINT, signal.SIGTERM):
            signal.signal(other, signal.SIG_IGN)
        raise Stopped

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
