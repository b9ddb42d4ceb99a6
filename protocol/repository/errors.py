"""Why a model repository cannot be used, in a small tree."""


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
