"""The commands on IBM MQ: doctor shows the client packages, and the commands that move messages work."""

import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from mqflow.bindings.connection import BoundConnection
from mqflow.cli.main import main
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.standin import install
from tests.client_packages import PACKAGES, import_here

URL = "{package}://mq.example:1414/QM1?channel=APP.SVRCONN"


@pytest.fixture(params=PACKAGES)
def package(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package that reaches a queue manager with one queue."""
    monkeypatch.chdir(tmp_path)
    queue_manager = EmbeddedQueueManager("QM1")
    queue_manager.administration.define(QueueAttributes(name="Q"))
    import_here(request.param)
    with install(queue_manager):
        yield request.param
    queue_manager.close()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_doctor_names_the_usable_package_and_its_queue_manager(package: str) -> None:
    result = run("doctor", "--url", URL.format(package=package))

    assert 0 == result.exit_code, result.output
    assert re.search(rf"{package:<18} can be used, built for IBM MQ \d+\.\d\.\d\n", result.output), result.output
    assert "queue manager      QM1, command level" in result.output


def test_doctor_says_that_the_queue_manager_is_not_reached(package: str) -> None:
    result = run("doctor", "--url", URL.format(package=package).replace("QM1", "QM2"))

    assert 1 == result.exit_code
    assert "not opened         MQCONNX on QM2 failed: MQRC_Q_MGR_NAME_ERROR (2058)." in result.output


def test_doctor_distinguishes_a_refused_inquiry_from_a_missing_queue_manager(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many applications may connect (AUTHADD(CONNECT)) and not inquire the queue manager."""

    def refuse(connection: BoundConnection, name: str, *_: object, **__: object) -> None:
        raise error_for(Reason.NOT_AUTHORIZED, "MQOPEN", name, connection.queue_manager_name)

    monkeypatch.setattr(BoundConnection, "open", refuse)

    result = run("doctor", "--url", URL.format(package=package))

    assert 0 == result.exit_code, result.output
    assert "queue manager      QM1, which this user cannot inquire" in result.output
    assert "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('...') AUTHADD(INQ)" in result.output


def test_a_command_reports_the_first_error_and_not_that_of_its_backout(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for verb, called in (("get", "MQGET"), ("backout", "MQBACK")):
        error = error_for(Reason.CONNECTION_BROKEN, called, queue_manager="QM1")
        monkeypatch.setattr(BoundConnection, verb, Mock(side_effect=error))

    result = run("get", "Q", "--url", URL.format(package=package))

    assert "MQGET (QM1) failed: MQRC_CONNECTION_BROKEN (2009)" in result.stderr
    assert "MQBACK" not in result.stderr


def test_messages_are_put_browsed_and_got(package: str) -> None:
    url = ("--url", URL.format(package=package))

    put = run("put", "Q", "hello", *url)
    browsed = run("browse", "Q", *url)
    got = run("get", "Q", *url)

    assert [0, 0, 0] == [put.exit_code, browsed.exit_code, got.exit_code], put.output + browsed.output + got.output
    assert "hello" in browsed.output
    assert "hello" in got.output
    assert 3 == run("get", "Q", *url).exit_code


def test_the_error_names_the_tools_of_ibm_mq(package: str) -> None:
    (Path.cwd() / "queues.mqsc").write_text("DEFINE QLOCAL(NEW)")

    result = run("mqsc", "queues.mqsc", "--url", URL.format(package=package))

    assert 2 == result.exit_code
    assert "mqflow neither defines nor lists its objects. runmqsc does." in result.stderr
