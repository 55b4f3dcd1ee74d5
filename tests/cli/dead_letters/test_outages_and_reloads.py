"""`mqflow dlq run` in its corners: the lines about an outage, and a rules file that changes, disappears and comes back."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.cli.dead_letters import run as module
from mqflow.cli.dead_letters.run import EndedError, _handle_through_outages, _RulesFile
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.rules import Action
from mqflow.runtime.dead_letters.dead_letter_handler import Rules

BROKEN, IN_DOUBT = (error_for(Reason.CONNECTION_BROKEN, verb, "", "QM1") for verb in ("MQGET", "MQCMIT"))
INHIBITED, BACKED_OUT = error_for(Reason.GET_INHIBITED, "MQGET", "DLQ", "QM1"), error_for(Reason.BACKED_OUT, "MQCMIT")
NOT_BACKED_OUT = error_for(Reason.HOBJ_ERROR, "MQBACK")
REFUSED = error_for(Reason.NOT_AUTHORIZED, "MQCONN", "", "QM1")
AGAIN = "Connected to QM1 again. The handler continues from the head of the queue."


class Script:
    """A handler and its connection. Each step is the result of the next call: None for success, or an error."""

    queue = "DLQ"

    def __init__(self, runs: list[MQIError | None], opens: list[MQIError | None], reconnects: list[MQIError | bool]) -> None:
        self._runs, self._opens, self._reconnects = iter(runs), iter(opens), iter(reconnects)
        self.connection = SimpleNamespace(queue_manager_name="QM1")

    def run(self, *_: object, stopping: Callable[[], bool]) -> None:
        assert not stopping()
        self._next(self._runs)

    def open(self, connection: object) -> None:
        assert connection is self.connection
        self._next(self._opens)

    def reconnect(self, _: MQIError) -> bool:
        return self._next(self._reconnects) is True

    @staticmethod
    def _next(steps: Iterator[object]) -> object:
        step = next(steps)
        if isinstance(step, MQIError):
            raise step
        return step


@pytest.mark.parametrize(
    ("script", "ended", "said"),
    [
        (Script([None], [], []), None, []),
        (Script([BROKEN], [], [False]), None, [f"The connection is lost. {BROKEN}"]),
        (Script([BROKEN, None], [None], [True]), None, [f"The connection is lost. {BROKEN}", AGAIN]),
        # The second outage begins before the queue is open again: it is the same one.
        (Script([BROKEN, None], [BROKEN, None], [True, True]), None, [f"The connection is lost. {BROKEN}", AGAIN]),
        (
            Script([IN_DOUBT, BROKEN], [None], [True, False]),
            None,
            [
                f"The connection is lost. The current message is in doubt: moved, or still on DLQ. {IN_DOUBT}",
                AGAIN,
                f"The connection is lost. {BROKEN}",
            ],
        ),
        (Script([INHIBITED], [], [INHIBITED]), (8748, INHIBITED), []),
        (Script([NOT_BACKED_OUT], [], [NOT_BACKED_OUT]), (8749, NOT_BACKED_OUT), []),
        (Script([BACKED_OUT], [], [BACKED_OUT]), (8749, BACKED_OUT), []),
        (Script([BROKEN], [], [REFUSED]), (8741, REFUSED), [f"The connection is lost. {BROKEN}"]),
    ],
)
def test_each_outage_is_one_line_and_an_error_that_is_no_outage_ends_the_handler(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: Script,
    ended: tuple[int, MQIError] | None,
    said: list[str],
) -> None:
    monkeypatch.setattr(module, "run_to_end", script.run)
    handler: Any = script
    found: tuple[int, str] | None = None

    try:
        _handle_through_outages(handler, handler, lambda: False)
    except EndedError as error:
        found = (error.number, error.text)

    assert (ended and (ended[0], str(ended[1])), said) == (found, capsys.readouterr().err.splitlines())


class Watched:
    """A rules file that a handler watches, and a clock that the test sets."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file = folder / "rules.tbl"
        self.now = 100.0
        self.rules: list[Rules] = []
        self._stamp = 0
        monkeypatch.setattr(module, "SYSTEM_CLOCK", SimpleNamespace(monotonic=lambda: self.now))
        self.write("ACTION(RETRY)")
        self._rules = _RulesFile(self.file, SimpleNamespace(reload=self.rules.append))  # type: ignore[arg-type]  # as above

    def write(self, text: str) -> None:
        self._stamp += 1
        self.file.write_text(text)
        os.utime(self.file, ns=(self._stamp, self._stamp))

    def actions_at(self, now: float) -> list[Action]:
        """Look at the file at this time; return the first action of each table that was loaded so far."""
        self.now = now
        self._rules.check()
        return [rules.matchers[0].rule.action for rules in self.rules]


def test_the_rules_file_is_looked_at_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(tmp_path, monkeypatch)

    seen = [watched.actions_at(100.0)]
    watched.write("ACTION(DISCARD)")
    seen += [watched.actions_at(100.999), watched.actions_at(101.0), watched.actions_at(102.0)]

    assert [[], [], [Action.DISCARD], [Action.DISCARD]] == seen


def test_a_rules_file_that_is_away_for_a_moment_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watched = Watched(tmp_path, monkeypatch)

    watched.file.unlink()
    away = watched.actions_at(100.0)
    watched.write("ACTION(RETRIE)")
    wrong = watched.actions_at(101.0)
    watched.write("ACTION(DISCARD)")
    back = watched.actions_at(102.0)

    assert ([], [], [Action.DISCARD]) == (away, wrong, back)
    printed = capsys.readouterr()
    assert [
        f"{watched.file} has changed but has errors; the previous rules still apply.",
        f"{watched.file} has changed: the new rules apply, from the head of the queue.",
    ] == [line for line in (printed.out + printed.err).splitlines() if line.startswith(str(watched.file))]
