"""Why a model repository cannot be used, in a small tree."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
from huggingface_hub import errors as hub_errors


class RepositoryError(Exception):
    """A model repository cannot be used; the message is for a person."""


class NotFound(RepositoryError):
    """No such repository, as far as this caller may know."""


class RevisionNotFound(NotFound):
    """The repository exists, the branch or commit does not."""


class Private(RepositoryError):
    """The repository is private or disabled: the network's nodes could not fetch it."""


class Gated(RepositoryError):
    """The repository's files are given only to people who accepted its terms."""


class Unsupported(RepositoryError):
    """The repository is readable, but the forced draw does not serve such a model."""


class Unreachable(RepositoryError):
    """The hub did not answer or answered badly; a later try may pass."""


@contextmanager
def translated(model: str, revision: str) -> Iterator[None]:
    """Turn what ``huggingface_hub`` raises inside the block into this module's errors."""
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
