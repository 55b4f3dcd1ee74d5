"""Room for connections: how many files and sockets this process may have open at once.

Knows the system's limit; knows no queue manager.
"""

import contextlib
from typing import Final

__all__ = ("allow_all_descriptors", "too_few")

_EACH: Final = 3
_OTHERS: Final = 64
"""What the storage, the sockets and Python itself have open."""


def allow_all_descriptors() -> int | None:
    """Have the soft limit of open files where the hard one is, and return it; None where the system sets or says none.

    The soft limit is 1,024 on most systems, for programs that use `select`. A served connection takes three.
    """
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - not on every system

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return None if hard == resource.RLIM_INFINITY else hard
    return None


def too_few(allowed: int | None, connections_max: int) -> str:
    """Return what to say where so many descriptors are too few for so many served connections; else nothing."""
    if allowed is None or allowed >= _OTHERS + _EACH * connections_max:
        return ""
    room = max(allowed - _OTHERS, 0) // _EACH
    return (
        f"The system allows {allowed:,} open files, which is enough for {room:,} connections, not for {connections_max:,}: "
        "raise its hard limit (ulimit -Hn, LimitNOFILE), or say --max-connections."
    )
