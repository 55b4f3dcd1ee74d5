"""Room for connections: how many files and sockets this process may have open at once.

Knows the system's limit; knows no queue manager.
"""

import contextlib

__all__ = ("allow_all_descriptors",)


def allow_all_descriptors() -> None:
    """Have the soft limit of open files where the hard one is; where the system says no, as it was.

    The soft limit is 1,024 on most systems, for programs that use `select`. A served connection takes three.
    """
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - not on every system

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
