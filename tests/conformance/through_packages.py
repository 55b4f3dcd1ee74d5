"""The conformance tests through pymqi and ibmmq: unmodified, on the stand-in library, on the embedded queue manager in memory.

Everything runs in the process of the tests, so that a test sees both ends. `DIFFERENCES` lists the limits of the packages, by
test.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mqflow.bindings.connect_options import ConnectOptions
from mqflow.bindings.dialects import base
from mqflow.bindings.queue_manager import BoundQueueManager
from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.standin import install
from mqflow.verbs import Connection
from tests.client_packages import import_here
from tests.conformance.under_test import UnderTest

__all__ = ("DIFFERENCES", "through")

_NO_MESSAGE_HANDLE = "the adapter makes no message handles, and says so"
_OF_THE_MQI = {
    "test_a_message_handle_takes_all_properties_with_any_propctl": _NO_MESSAGE_HANDLE,
    "test_only_a_queue_with_force_keeps_them_out_of_a_message_handle": _NO_MESSAGE_HANDLE,
    "test_data_without_their_properties_are_converted": _NO_MESSAGE_HANDLE,
    "test_a_message_without_properties_has_none_in_a_handle_either": _NO_MESSAGE_HANDLE,
    "test_a_message_whose_properties_do_not_fit_a_handle_comes_unchanged_and_does_not_block_the_queue": _NO_MESSAGE_HANDLE,
}
_NO_APPLICATION_NAME = "pymqi's MQCNO is of version 5, which has no application name"
_NO_REQUEST = "pymqi has no MQSUBRQ"
DIFFERENCES: Mapping[str, Mapping[str, str]] = {
    "ibmmq": _OF_THE_MQI,
    "pymqi": _OF_THE_MQI | {"test_by_default_the_queue_manager_fills_everything_in": _NO_APPLICATION_NAME,
        "test_set_identity_takes_the_identity_only": _NO_APPLICATION_NAME,
        "test_pass_identity_passes_the_identity_on_only": _NO_APPLICATION_NAME,
        "test_names_longer_than_their_field_are_cut": _NO_APPLICATION_NAME, "test_on_request_means_only_then": _NO_REQUEST,
        "test_a_request_where_nothing_is_retained_is_2437": _NO_REQUEST,
        "test_a_request_that_cannot_deliver_all_publications_delivers_none": _NO_REQUEST,
        "test_a_set_that_is_refused_changes_nothing": "pymqi sets one attribute after the other"},
}  # fmt: skip
"""By package: test name, or test name and parameters -> why the package, or the MQI under the package, may differ."""


class _Behind:
    """The embedded queue manager as the library calls it. This class remembers the last connection."""

    def __init__(self, queue_manager: EmbeddedQueueManager) -> None:
        self._queue_manager = queue_manager
        self.newest: EmbeddedConnection | None = None

    @property
    def name(self) -> str:
        return self._queue_manager.name

    def connect(self, *, application_name: str = "", user: str = "") -> EmbeddedConnection:
        self.newest = self._queue_manager.connect(application_name=application_name, user=user)
        return self.newest


class _InFront:
    """The queue manager as the tests connect to it; knows the connection of the library behind each connection."""

    def __init__(self, bound: BoundQueueManager, behind: _Behind) -> None:
        self._bound = bound
        self._behind = behind
        self._pairs: dict[Any, EmbeddedConnection] = {}

    @property
    def name(self) -> str:
        return self._bound.name

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        connection = self._bound.connect(application_name=application_name, user=user)
        assert self._behind.newest is not None
        self._pairs[connection] = self._behind.newest
        return connection

    def kill(self, connection: Connection) -> None:
        self._pairs[connection].abandon()


def through(package: str, under_test: UnderTest) -> Iterator[UnderTest]:
    """Return the embedded queue manager, reached through the package."""
    embedded = under_test.queue_manager
    assert isinstance(embedded, EmbeddedQueueManager)
    behind = _Behind(embedded)
    import_here(package)
    with install(behind):
        options = ConnectOptions(queue_manager=embedded.name, channel="APP.SVRCONN", hosts=(("mq.example", 1414),))
        front = _InFront(BoundQueueManager(base.load(package), options), behind)
        yield replace(under_test, queue_manager=front, kill=front.kill, differences=DIFFERENCES[package])
