"""Divides the tests between the processes of pytest-xdist: a group of tests, or else a file, belongs to one process."""

from xdist.scheduler import LoadGroupScheduling

__all__ = ("WholeFiles",)


class WholeFiles(LoadGroupScheduling):  # type: ignore[misc]  # xdist has no types
    """The scheduler of `--dist loadgroup`, with the files of tests that have no group as groups of their own."""

    def _split_scope(self, nodeid: str) -> str:
        group: str = super()._split_scope(nodeid)
        return group.split("::", 1)[0]
