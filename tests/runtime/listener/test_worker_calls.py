"""The calls of a worker to its session: the get with or without a commit, the next unit at once, and its pause."""

from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import GetOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.listener.listener_state import OpenCall
from mqflow.runtime.listener.worker import Worker
from mqflow.verbs import Exchange, GetOptions

pytestmark = pytest.mark.anyio

GET = GetOption.SYNCPOINT | GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
GROUP = GET | GetOption.LOGICAL_ORDER | GetOption.ALL_MSGS_AVAILABLE
COMMIT = Settlement.COMMIT
LOST = error_for(Reason.CONNECTION_BROKEN, "MQGET", "IN")
DENIED = error_for(Reason.NOT_AUTHORIZED, "MQOPEN", "IN")
IN_USE = error_for(Reason.OBJECT_IN_USE, "MQOPEN", "IN")
INHIBITED = error_for(Reason.GET_INHIBITED, "MQGET", "IN")


class Bench:
    """A worker with the number 4 at 100 seconds, and the calls that it makes."""

    def __init__(self, *, watched: bool = False, records: bool = False, **options: bool | int) -> None:
        self.noted, self.answers, self.term = list[Any](), list[Any](), 1
        usual: dict[str, Any] = {"handles_groups": False, "strict_order": False, "unit_of_work": 10, "linger_ms": 25}
        made: Any = object.__new__(Worker)
        self.worker: Any = made
        self.calls: dict[int, OpenCall] | None = {9: OpenCall(is_get=True, since=1.0, wait_s=5.0)} if watched else None
        self.settings = SimpleNamespace(refused=lambda _: False, retry=self._noting("retry"))
        self.state = made._state = SimpleNamespace(
            calls=self.calls, clock=SimpleNamespace(monotonic=lambda: 100.0), rest=self._noting("rest"), term=1,
            settings=self.settings, supervisor=SimpleNamespace(generation=3), stuck=(), rest_left_s=12.5,
            stopping=SimpleNamespace(is_set=lambda: False),
            cannot_browse=lambda error: self.noted.append(("cannot browse", error)),
        )  # fmt: skip
        made._spec = SimpleNamespace(**usual | options)
        made._number, made._input, made._term, made._unstuck = 4, "input", 1, None
        made._session = SimpleNamespace(exchange=self._exchange)
        made._records = "records" if records else None
        made._settler = SimpleNamespace(
            interrupted=lambda unit: self.noted.append(("interrupted", unit)), overlapping=None, next_answer=self._answer
        )
        made._unit_of, made._handled = lambda got, handle=None: [*got, *filter(None, [handle])], self._handled

    def _noting(self, name: str) -> Any:
        async def call(*given: Any) -> None:
            self.noted.append((name, *given[1:]))

        return call

    async def _exchange(self, *given: Any, **options: Any) -> Exchange:
        self.noted += [given, options]
        if self.calls is not None:
            self.noted.append(self.calls.get(4))
        answer = self.answers.pop(0) if self.answers else Exchange()
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, Exchange)
        return answer

    async def _answer(self) -> Any:
        self.noted.append("answer")
        return self.answers.pop(0)

    async def _handled(self, unit: Any) -> Any:
        self.noted.append(("handled", unit))
        return "unit"


def asked(options: GetOption, wait_ms: int) -> GetOptions:
    return GetOptions(options=options | GetOption.WAIT, wait_ms=wait_ms)


@pytest.mark.parametrize(
    ("options", "handled", "waits", "most", "settlement", "get", "messages", "noted"),
    [({}, False, True, 0, None, asked(GET, 120_000), 10, []),
     ({}, True, True, 0, COMMIT, asked(GET, 120_000), 10, []),
     ({}, False, False, 0, None, GetOptions(options=GET, wait_ms=120_000), 10, []),
     ({}, False, True, 3, None, asked(GET, 120_000), 3, []),
     ({"strict_order": True}, False, True, 0, None, asked(GET, 120_000), 1, []),
     ({"handles_groups": True}, False, True, 0, None, asked(GROUP, 120_000), 10, []),
     ({"handles_groups": True, "records": True}, True, True, 0, COMMIT, asked(GROUP, 5_000), 10, []),
     ({"records": True}, False, True, 0, None, asked(GET, 5_000), 10, []),
     ({"watched": True}, False, True, 0, None, asked(GET, 5_000), 10, [OpenCall(is_get=True, since=100.0, wait_s=5.0)]),
     ({"watched": True}, False, False, 0, None, GetOptions(options=GET, wait_ms=5_000), 10,
      [OpenCall(is_get=False, since=100.0, wait_s=0.0)]),
     ({"watched": True}, True, True, 0, COMMIT, asked(GET, 5_000), 10, [OpenCall(is_get=False, since=100.0, wait_s=0.0)])],
)  # fmt: skip
@pytest.mark.parametrize("error", [None, LOST])
async def test_a_worker_commits_and_gets_with_one_call_and_notes_it_if_it_is_watched(
    options: dict[str, Any],
    *,
    handled: bool,
    waits: bool,
    most: int,
    settlement: Settlement | None,
    get: GetOptions,
    messages: int,
    noted: list[OpenCall],
    error: MQIError | None,
) -> None:
    bench, unit = Bench(**options), SimpleNamespace(settling_since=None)
    bench.answers += [error] if error else []
    before = None if bench.calls is None else dict(bench.calls)

    if error is None:
        assert Exchange() == await bench.worker._exchange(unit if handled else None, waits=waits, most=most)
    else:
        with pytest.raises(MQIError):
            await bench.worker._exchange(unit if handled else None, waits=waits, most=most)

    interrupted = [("interrupted", unit)] if handled and error else []
    assert [(settlement, "input", get), {"most": messages, "linger_ms": 25}, *noted, *interrupted] == bench.noted
    assert (100.0 if handled and noted else None, before) == (unit.settling_since, bench.calls)


@pytest.mark.parametrize(
    ("gets", "answers", "found", "calls"),
    [
        ([("a",)], [], ("a",), []),
        ([(), (), ("a",)], [True, True], ("a",), ["answer"] * 2),
        ([(), ()], [True, False], (), ["answer"] * 2),
        ([(), "order"], [True], (), ["answer"]),
    ],
)
async def test_the_next_unit_comes_at_once_or_with_an_answer_to_a_commit(
    gets: list[Any], answers: list[bool], found: Any, calls: list[str]
) -> None:
    bench = Bench()
    bench.answers += answers
    planned = gets.copy()

    def get_at_once(handle: object, options: GetOptions, most: int) -> Any:
        assert ("input", asked(GET, 120_000), 10) == (handle, options, most)
        assert planned, "a get too many"
        got = planned.pop(0)
        if got == "order":
            bench.state.term = 2
            return ()
        return got

    assert () == await bench.worker._next_at_once()
    bench.worker._settler.overlapping = SimpleNamespace(get_at_once=get_at_once)
    assert (found, calls, []) == (await bench.worker._next_at_once(), bench.noted, planned)


class Unstuck:
    """Gets the next message beside those that stay."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.handle = answer, "browse and input"

    async def get(self, left_s: float) -> Any:
        assert 12.5 == left_s
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


REST, HANDLED = ("rest",), ("handled", ["message", "browse and input"])


@pytest.mark.parametrize(
    ("refused", "stopped", "stuck", "strict", "unstuck", "result", "calls", "browses"),
    [
        (True, False, True, False, Unstuck("message"), None, [REST, ("retry", "input", 3)], True),
        (True, True, True, False, Unstuck("message"), None, [REST], True),
        (False, False, False, False, Unstuck("message"), None, [REST], True),
        (False, False, True, True, Unstuck("message"), None, [REST], True),
        (False, False, True, False, None, None, [REST], False),
        (False, False, True, False, Unstuck("message"), "unit", [HANDLED], True),
        (False, False, True, False, Unstuck(None), None, [], True),
        (False, False, True, False, Unstuck(DENIED), None, [("cannot browse", DENIED)], False),
        (False, False, True, False, Unstuck(IN_USE), None, [("cannot browse", IN_USE)], False),
        (False, False, True, False, Unstuck(INHIBITED), INHIBITED, [], True),
        (False, False, True, False, Unstuck(LOST), LOST, [], True),
    ],
)
async def test_a_worker_rests_or_handles_the_messages_beside_those_that_stay(
    *,
    refused: bool,
    stopped: bool,
    stuck: bool,
    strict: bool,
    unstuck: Unstuck | None,
    result: Any,
    calls: list[Any],
    browses: bool,
) -> None:
    bench = Bench(strict_order=strict)
    bench.settings.refused = lambda _: refused
    bench.state.stopping = SimpleNamespace(is_set=lambda: stopped)
    bench.state.stuck = ("key",) if stuck else ()
    bench.worker._unstuck = unstuck

    async def rested() -> Any:
        try:
            return await bench.worker._rest()
        except MQIError as error:
            return error

    assert (result, calls, browses) == (await rested(), bench.noted, bench.worker._unstuck is not None)
