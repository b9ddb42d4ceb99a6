"""Looking a model up on the hub: its commit is pinned, its facts are read, its tokenizer fetched.

The hub's client blocks, so it runs in a few threads of its own and for a bounded time. A
repository's files are large and anybody's, so they are read elsewhere. What is known of a commit
never changes and is kept.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from gateway.catalog.prices import PriceList, load_prices
from gateway.catalog.sizes import ModelSize
from gateway.errors import GatewayError
from protocol import repository
from protocol.repository import ModelFacts

P = ParamSpec("P")
T = TypeVar("T")

_MAX_KEPT = 1_024
_RETRY_SECONDS = 15
_SHOWN = 80


class Runner(Protocol):
    """Runs a function where it blocks nobody; what it raises is raised here."""

    def __call__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Return what the function returns."""
        ...


@dataclass(frozen=True)
class Model:
    """A model commit that can be ordered: its facts, size, and the folder of its small files."""

    facts: ModelFacts
    size: ModelSize
    folder: Path


class Catalog:
    """The models that can be ordered.

    Args:
        cache_dir: where the hub's files are kept; None for the hub client's own cache.
        lookup_seconds: the longest that one request to the hub may take.
        read_in: where the files of a repository are read, by default in the hub's threads.
        prices: what orders cost; None for the prices that come with the gateway.
    """

    def __init__(
        self,
        cache_dir: Path | None = None,
        lookup_seconds: float = 30.0,
        read_in: Runner | None = None,
        prices: PriceList | None = None,
    ) -> None:
        self.prices = prices or load_prices()
        self._cache_dir = cache_dir
        self._lookup_seconds = lookup_seconds
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="hub")
        self._models: dict[tuple[str, str], Model] = {}
        self._read_in = read_in or self._in_thread

    def close(self) -> None:
        """Give the threads up; lookups under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def pin(self, model: str) -> str:
        """The commit that ``main`` names now, 40 lower-case hexadecimal digits.

        Raises:
            GatewayError: 400 ``invalid_revision``; 422 ``model_not_found`` or ``model_private``;
                503 ``model_lookup_unavailable``.
        """
        return await self._ask(repository.resolve_revision, model)

    async def model(self, name: str, commit: str, architectures: Collection[str]) -> Model:
        """A model at a commit, checked.

        Args:
            architectures: what is supported now.

        Raises:
            GatewayError: 400 ``invalid_revision``; 422 ``model_not_found``, ``model_private``,
                ``model_unsupported`` or ``architecture_unsupported``; 503
                ``model_lookup_unavailable``.
        """
        known = self._models.get((name, commit))
        if known is None:
            known = await self._fetch(name, commit, architectures)
            if len(self._models) >= _MAX_KEPT:
                self._models.pop(next(iter(self._models)))
            self._models[name, commit] = known
        _check_architecture(name, known.facts.architecture, architectures)
        return known

    async def folder(self, name: str, commit: str) -> Path:
        """Return the folder of the small files of a commit, whatever is supported now.

        Raises:
            GatewayError: 422 where it is gone; 503 ``model_lookup_unavailable``.
        """
        known = self._models.get((name, commit))
        if known is not None:
            return known.folder
        download = partial(repository.download, weights=False, cache_dir=self._cache_dir)
        return await self._ask(download, name, commit)

    async def _fetch(self, name: str, commit: str, architectures: Collection[str]) -> Model:
        cache_dir = self._cache_dir
        download = partial(repository.download, weights=False, cache_dir=cache_dir)
        folder = await self._ask(download, name, commit)
        with _refusals():
            # First: of another architecture nothing else needs to be as it is here.
            architecture = await self._read_in(repository.read_architecture, folder)
            _check_architecture(name, architecture, architectures)
            facts = await self._read_in(repository.read_facts, folder, name, commit)
            cache = await self._read_in(repository.read_cache_shape, folder, facts.element_bytes)
        weigh = partial(repository.weight_bytes, cache_dir=cache_dir)
        weight_bytes = await self._ask(weigh, name, commit)
        size = ModelSize(
            weight_bytes=weight_bytes,
            parameters=weight_bytes // facts.element_bytes,
            cache=cache,
        )
        return Model(facts, size, folder)

    async def _ask(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        with _refusals():
            try:
                async with asyncio.timeout(self._lookup_seconds):
                    return await self._in_thread(function, *args, **kwargs)
            except TimeoutError:
                raise _unavailable() from None

    def _in_thread(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]:
        call = partial(function, *args, **kwargs)
        return asyncio.get_running_loop().run_in_executor(self._threads, call)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except repository.RepositoryError as error:
        raise _refusal(error) from None


def _check_architecture(model: str, architecture: str, supported: Collection[str]) -> None:
    if architecture not in supported:
        raise GatewayError(
            422,
            "architecture_unsupported",
            f"{model} is a {architecture[:_SHOWN]}; supported are {', '.join(supported)}.",
        )


def _refusal(error: repository.RepositoryError) -> GatewayError:
    text = f"{error}."
    match error:
        case repository.Unreachable():
            return _unavailable()
        case repository.RevisionNotFound():
            return GatewayError(400, "invalid_revision", text, "metadata.revision")
        case repository.NotFound():
            return GatewayError(422, "model_not_found", text)
        case repository.Private() | repository.Gated():
            return GatewayError(422, "model_private", f"{text} Only public models are offered.")
        case _:
            return GatewayError(422, "model_unsupported", text)


def _unavailable() -> GatewayError:
    return GatewayError(
        503,
        "model_lookup_unavailable",
        "The Hugging Face hub did not answer in time; try again shortly.",
        retry_after=_RETRY_SECONDS,
    )
