"""The hub client's errors, told as this package's."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
from huggingface_hub import errors as hub_errors

from protocol.repository.errors import (
    Gated,
    NotFound,
    Private,
    RevisionNotFound,
    Unreachable,
)


@contextmanager
def translated(model: str, revision: str) -> Iterator[None]:
    """Turn what ``huggingface_hub`` raises inside the block into the errors of this package."""
    try:
        yield
    except hub_errors.GatedRepoError as error:
        raise Gated(f"{model} is gated: its files need an accepted agreement") from error
    except hub_errors.RepositoryNotFoundError as error:
        raise NotFound(f"{model} does not exist on the hub, or it is private") from error
    except hub_errors.RevisionNotFoundError as error:
        raise RevisionNotFound(f"{model} has no revision {revision!r}") from error
    except hub_errors.RemoteEntryNotFoundError as error:
        raise Unreachable(f"{model}: a file listed at {revision} is not there") from error
    except hub_errors.DisabledRepoError as error:
        raise Private(f"{model} is disabled on the hub") from error
    except hub_errors.HFValidationError as error:
        raise NotFound(f"{model!r} is no repository name; write org/name") from error
    except hub_errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise Private(f"{model} is not open to this caller (HTTP {status})") from error
        raise Unreachable(f"the hub answered HTTP {status} for {model}") from error
    except (
        hub_errors.LocalEntryNotFoundError,
        hub_errors.FileMetadataError,
        hub_errors.OfflineModeIsEnabled,
        httpx2.HTTPError,
        httpx2.InvalidURL,
        json.JSONDecodeError,
    ) as error:
        reason = f"{type(error).__name__} while asking the hub for {model}"
        raise Unreachable(reason) from error
