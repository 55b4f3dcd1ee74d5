"""Commits several units of work of a connection, and gets new units of work while the store writes the commits.

A unit of work that only removes messages shares a sync with later units. Any other commit must be complete before the next
begins. If the store refused such a commit, the puts of later units would overtake its puts. This module knows no frame.
"""

from functools import partial

from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.server.contract import ServableConnection
from mqflow.many_verbs import without_wait
from mqflow.mqi.errors import MQIError
from mqflow.verbs import ObjectHandle
from mqflow.world import Runner

__all__ = ("UNITS_BYTES_MAX", "settled_many")

UNITS_BYTES_MAX = 1024 * 1024
"""The most bytes of all units in one reply."""


def settled_many(
    connection: ServableConnection, handle: ObjectHandle, request: requests.SettleMany, runner: Runner
) -> requests.SettledMany:
    """Return the reply after all commits are complete. The store writes them while this function gets the new units."""
    answers = _Answers(runner, request.commits)
    for number in range(request.commits):
        is_alone = not connection.only_removes
        answers.begin(number, connection)
        if is_alone:
            answers.wait()
    options = without_wait(request.options)
    units_max = min(request.units, requests.MANY_MAX // max(1, request.most))
    units = connection.take_ahead(handle, options, most=request.most, units=units_max, bytes_max=UNITS_BYTES_MAX)
    return requests.SettledMany(answers.wait(), tuple(map(tuple, units)))


class _Answers:
    """The results of several commits. The store's thread sets them; the connection's thread waits for all of them."""

    def __init__(self, runner: Runner, commits: int) -> None:
        self._failures: list[requests.Failure | None] = [None] * commits
        self._guard = runner.lock()
        self._left = 0
        self._all = runner.event()
        self._all.set()

    def begin(self, number: int, connection: ServableConnection) -> None:
        """Begin the commit of the open unit of work."""
        with self._guard:
            if not self._left:
                self._all.clear()
            self._left += 1
        try:
            if connection.begin_commit(partial(self._answer, number), behind=True):
                self._answer(number, None)
        except MQIError as error:
            self._answer(number, error)

    def wait(self) -> tuple[requests.Failure | None, ...]:
        """Wait until all commits are complete. Return their failures, in order; None for a success."""
        self._all.wait()
        return tuple(self._failures)

    def _answer(self, number: int, error: MQIError | None) -> None:
        with self._guard:
            if error is not None:
                self._failures[number] = requests.failure_of(error)
            self._left -= 1
            if not self._left:
                self._all.set()
