"""Log lines: for a person on a terminal, JSON everywhere else."""

import logging
import sys
from typing import Any

import structlog


def configure_logs(level: int = logging.INFO) -> None:
    """Send everything that the process logs through structlog to standard error."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if sys.stderr.isatty():
        shown: list[Any] = [structlog.dev.ConsoleRenderer()]
    else:
        shown = [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(sort_keys=True),
        ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    remove_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[remove_meta, *shown]
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # These say at INFO what our own lines say already, or name every statement and request.
    for name in ("uvicorn", "httpx", "httpx2", "huggingface_hub", "python_multipart", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
