"""The session of a `mqflow spark` command: which parts of it the command uses, here and on a Spark Connect server."""

import sys
from types import SimpleNamespace

import click
import pytest

from mqflow.cli.pipeline.spark_session import started


class ConnectSession:
    """A session of Spark Connect, which has no context in this process."""

    def __init__(self) -> None:
        self.log_levels: list[str] = []
        self.stopped = 0

    def stop(self) -> None:
        self.stopped += 1


class LocalSession(ConnectSession):
    """A session in this process, which is its own context."""

    @property
    def sparkContext(self) -> "LocalSession":  # noqa: N802 - Spark's name
        return self

    def setLogLevel(self, level: str) -> None:  # noqa: N802 - as above
        self.log_levels.append(level)


@pytest.mark.parametrize(
    ("remote", "conf", "log_levels"),
    [
        pytest.param("sc://host", (), [], id="a server has a log of its own"),
        pytest.param(None, (), ["OFF"], id="Spark in this process logs nothing"),
        pytest.param(None, ("spark.log.level=INFO",), ["INFO"], id="unless the user asks for its log"),
    ],
)
def test_a_command_sets_the_log_of_the_spark_in_its_process_and_stops_its_session(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    remote: str | None,
    conf: tuple[str, ...],
    log_levels: list[str],
) -> None:
    session = LocalSession() if remote is None else ConnectSession()
    asked: list[tuple[str, dict[str, object]]] = []

    def made(name: str, **more: object) -> ConnectSession:
        asked.append((name, more))
        return session

    monkeypatch.setattr("mqflow.pipeline.spark_session", made)
    monkeypatch.setattr("mqflow.cli.pipeline.spark_session._running", lambda: None)

    with started("test", master="local[2]", remote=remote, conf=conf):
        before = session.stopped

    assert (0, 1, log_levels) == (before, session.stopped, session.log_levels)
    config = {"spark.python.sql.dataFrameDebugging.enabled": "false"}
    config |= {name: value for name, _, value in (text.partition("=") for text in conf)}
    assert [("mqflow spark test", {"master": "local[2]", "remote": remote, "config": config})] == asked
    assert "Starting Spark ...\n" == capsys.readouterr().err


def test_a_session_that_runs_already_gets_the_formats_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session, registered = LocalSession(), list[object]()
    spark = SimpleNamespace(SparkSession=SimpleNamespace(getActiveSession=lambda: session))
    monkeypatch.setitem(sys.modules, "pyspark.sql", spark)
    monkeypatch.setattr("mqflow.pipeline.register", registered.append)

    with started("test", master=None, remote=None, conf=()) as given:
        seen: list[object] = [given]

    assert ([session], [session], 0, []) == (seen, registered, session.stopped, session.log_levels)
    assert "" == capsys.readouterr().err


@pytest.mark.parametrize("text", ["a", "=b", ""])
def test_a_setting_of_spark_has_a_name_and_a_value(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("mqflow.pipeline.spark_session", None)  # so that no Spark starts

    with pytest.raises(click.BadParameter) as refused, started("test", master=None, remote=None, conf=("a=b=c", text)):
        raise AssertionError("started")

    assert f"{text!r} is not KEY=VALUE." == refused.value.message
