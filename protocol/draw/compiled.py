"""Compilation of the fast CPU loops with numba."""

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Any:
    """Compile ``function`` without the interpreter lock, cached on disk where that is possible.

    numba keeps the machine code beside the module or in the user's cache folder and refuses to
    cache where neither can be written (a read-only installation); the function is then compiled
    anew in each process.
    """
    try:
        return njit(nogil=True, cache=True, error_model="numpy")(function)
    except RuntimeError:
        return njit(nogil=True, error_model="numpy")(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile ``function`` into each of its compiled callers, so that their loops vectorise."""
    return njit(nogil=True, error_model="numpy", forceinline=True)(function)
