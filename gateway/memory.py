"""How the C library keeps memory: what is freed goes back to the system, as far as it can."""

import ctypes
import sys

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_LARGE_BYTES = 256 * 1024
_ARENAS = 2


def give_back_freed() -> None:
    """Make glibc return large buffers once they are freed, and keep few heaps.

    By itself it comes to keep buffers of up to 32 MiB for reuse, in a heap for each thread: a
    process that once took pieces of some MiB never shrinks again. Other C libraries are left alone.
    """
    if sys.platform != "linux":
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        library.mallopt(_M_ARENA_MAX, _ARENAS)
