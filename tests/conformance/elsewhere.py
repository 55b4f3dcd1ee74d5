"""The conformance tests on a remote queue manager: real IBM MQ, at MQFLOW_TEST_URL.

MQFLOW_TEST_RUNMQSC is a command that takes MQSC on its standard input, as an administrator of that queue manager. Examples
are ``runmqsc QM1`` and ``docker exec -i mq runmqsc QM1``. With this command the tests define queues, never over an existing
queue, and delete these queues again. Tests that control the queue manager (its clock, its end, its store) are skipped.
"""

import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import pytest

from mqflow import open_queue_manager
from mqflow.many_verbs import inquire_base_queue
from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES, QueueAttributes
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import QueueType
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.kit import definition
from mqflow.verbs import Connection, QueueManager
from tests.conformance.under_test import UnderTest

__all__ = ("RUNMQSC", "URL", "elsewhere")

URL = os.environ.get("MQFLOW_TEST_URL", "")
RUNMQSC = os.environ.get("MQFLOW_TEST_RUNMQSC", "")

_BY_WORDS = "a script is refused in words, not with a reason"
_DIFFERENCES = {
    "test_an_alteration_that_matters_to_open_handles_needs_force": _BY_WORDS,
    "test_an_open_queue_cannot_be_deleted": _BY_WORDS,
    "test_a_queue_manager_is_created_with_its_system_queues": "its system objects are its administrator's",
}
_KINDS = {QueueType.LOCAL: "QLOCAL", QueueType.MODEL: "QMODEL", QueueType.ALIAS: "QALIAS"}


class _Front:
    """Connects as the user of the settings: the queue manager does not know the users that the tests name."""

    def __init__(self, queue_manager: QueueManager) -> None:
        self._queue_manager = queue_manager
        self.connections: list[Connection] = []

    @property
    def name(self) -> str:
        return self._queue_manager.name

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:  # noqa: ARG002 - as above
        self.connections.append(self._queue_manager.connect(application_name=application_name))
        return self.connections[-1]


class _Administration:
    """The administration that the tests need, done with MQSC. A test that needs another command is skipped."""

    def __init__(self, front: _Front) -> None:
        self._front = front
        self._defined: list[tuple[str, str]] = []

    def define(self, attributes: QueueAttributes, *, replace: bool = False) -> None:
        assert not replace
        kind = _KINDS[attributes.kind]
        usual = QueueAttributes(name=attributes.name, kind=attributes.kind)
        said = {
            spec.field: getattr(attributes, spec.field)
            for spec in QUEUE_ATTRIBUTES
            if not spec.read_only and getattr(attributes, spec.field) != getattr(usual, spec.field)
        }
        self._run(f"{definition(attributes.name, kind, {})} NOREPLACE {_clauses(attributes.kind, said)}")
        self._defined.append((kind, attributes.name))

    def alter(self, name: str, changes: Mapping[str, object], *, force: bool = False) -> None:
        kind = next(kind for kind, defined in self._defined if defined == name)
        forced = " FORCE" if force else ""
        self._run(f"ALTER {kind}('{name}'){forced} {_clauses(_kind_of(kind), changes)}")

    def delete(self, name: str, *, purge: bool = False, **_: object) -> None:
        kind = next(kind for kind, defined in self._defined if defined == name)
        self._run(f"DELETE {kind}('{name}'){' PURGE' if purge else ''}")
        self._defined.remove((kind, name))

    def queue(self, name: str) -> QueueAttributes | None:
        connection = self._front.connect()
        try:
            return inquire_base_queue(connection, name)
        except MQIError as error:
            if error.reason == Reason.UNKNOWN_OBJECT_NAME:
                return None
            raise
        finally:
            connection.disconnect()

    def clean_up(self) -> None:
        for kind, name in self._defined:
            self._run(f"DELETE {kind}('{name}'){' PURGE' if kind == 'QLOCAL' else ''}")

    def __getattr__(self, name: str) -> Any:
        pytest.skip(f"a queue manager elsewhere is not asked for {name}")

    def _run(self, command: str) -> None:
        """Perform one command."""
        done = subprocess.run(
            shlex.split(RUNMQSC), input=f"{command.rstrip()}\nEND\n", capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def _kind_of(word: str) -> QueueType:
    return next(kind for kind, known in _KINDS.items() if known == word)


def _clauses(kind: QueueType, values: Mapping[str, object]) -> str:
    specs = {spec.field: spec for spec in QUEUE_ATTRIBUTES if kind in spec.kinds and not spec.read_only}
    found: list[str] = []
    for field, value in values.items():
        spec = specs[field]
        if spec.words is None:
            text = str(value).replace("'", "''")
            found.append(f"{spec.keyword}({text})" if isinstance(value, int) else f"{spec.keyword}('{text}')")
            continue
        words = {number: word for word, number in spec.words.items()}
        word = words.get(int(value), str(value))  # type: ignore[call-overload]  # numbers, of an enumeration or a flag
        found.append(word if spec.flag else f"{spec.keyword}({word})")
    return " ".join(found)


def elsewhere() -> Iterator[UnderTest]:
    """Return the queue manager that the environment names."""
    opened = open_queue_manager(URL)
    front = _Front(opened)
    administration = _Administration(front)

    def not_ours(*_: object) -> NoReturn:
        pytest.skip("a queue manager elsewhere is neither stopped nor cut off by a test")

    asked: Any = administration  # the object has the part of the protocol that the tests need
    yield UnderTest(front, asked, kill=not_ours, quiesce=not_ours, stop=not_ours, differences=_DIFFERENCES)
    for connection in front.connections:
        for verb in (connection.backout, connection.disconnect):
            try:
                verb()
            except MQIError:
                continue
    administration.clean_up()
    opened.close()
