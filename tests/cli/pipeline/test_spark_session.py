"""The session of a `mqflow spark` command: which parts of it the command uses, here and on a Spark Connect server."""

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
    monkeypatch: pytest.MonkeyPatch, remote: str | None, conf: tuple[str, ...], log_levels: list[str]
) -> None:
    session = LocalSession() if remote is None else ConnectSession()
    monkeypatch.setattr("mqflow.pipeline.spark_session", lambda *_, **__: session)
    monkeypatch.setattr("mqflow.cli.pipeline.spark_session._running", lambda: None)

    with started("test", master=None, remote=remote, conf=conf):
        before = session.stopped

    assert (0, 1, log_levels) == (before, session.stopped, session.log_levels)
