"""How the process keeps memory: what is freed goes back, and what stays is not looked at again."""

import ctypes
import gc
import sys

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_LARGE_BYTES = 256 * 1024


def keep_what_is_there() -> None:
    """Leave all that was made so far out of garbage collection.

    Nothing that a start-up makes is ever garbage, and a full collection that goes through all of it
    stops every request for some tenths of a second.
    """
    gc.collect()
    gc.freeze()


def give_back_freed(heaps: int = 2) -> None:
    """Make glibc return large buffers once they are freed, and keep few heaps.

    By itself it comes to keep buffers of up to 32 MiB for reuse, in a heap for each thread: a
    process that once took pieces of some MiB never shrinks again. Other C libraries are left alone.

    Args:
        heaps: threads that allocate all the time wait for each other where they have fewer.
    """
    if sys.platform != "linux":
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        library.mallopt(_M_ARENA_MAX, heaps)
