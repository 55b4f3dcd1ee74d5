"""A connection between its own thread, the idle poller and the store: who answers, and what is left over for its own thread.

The test makes all three. A frame is the request itself.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.frames import FrameError
from mqflow.embedded.wire.server.commit_and_next import CommitAndNext, LeftOver
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import UNIT_BYTES_MAX, GetOptions, Got
from mqflow.world import THREADS

GOT = Got(descriptor=MessageDescriptor(), body=b"an order", data_bytes=8)
ASKED = requests.Exchange(1, GetOptions(), commit=True, most=7)
NEXT = requests.Exchange(2, GetOptions(), commit=True, most=8)
FULL, GONE = error_for(Reason.Q_FULL, "MQCMIT"), OSError("gone")
ANSWER, REFUSAL = requests.Exchanged(unit=(GOT,)), requests.Exchanged(settle=requests.failure_of(FULL))
OPEN = requests.Open("Q", options=16)


class Kit:
    """Stands for the poller, the connection, its frames and its thread, and notes their calls."""

    def __init__(self) -> None:
        self.said: list[object] = []
        self.steps: list[Callable[[], object]] = []
        self.frames: list[Any] = []
        #: The results of calls; an error is raised.
        self.results: dict[str, list[Any]] = {}
        self.are_many, self.beating, self.socket = True, False, "stream"
        around: Any = self
        self.line = CommitAndNext(around, around, around, around.decoded, around.handle, around.options, around)

    lock = staticmethod(THREADS.lock)
    committers = property(lambda self: self)
    has_more = property(lambda self: bool(self.frames))

    handle = staticmethod("handle {}".format)

    def decoded(self, frame: object) -> object:
        return frame

    def options(self, _: object) -> str:
        return "options"

    def result(self, call: str, usual: Any = None) -> Any:
        self.said.append(call)
        found = self.results[call].pop(0) if self.results.get(call) else usual
        if isinstance(found, Exception):
            raise found
        return found

    def event(self) -> Any:
        return SimpleNamespace(clear=lambda: None, set=lambda: self.said.append("over"), wait=self.sleep)

    def sleep(self) -> None:
        for step in self.steps:
            step()

    def connect(self, _: object) -> None:
        self.result("connect")

    def disconnect(self, _: object) -> None:
        self.result("disconnect")

    def begin_commit(self, done: Callable[[Any], None]) -> bool:
        self.done = done
        return bool(self.result("commit", usual=True))

    def get_at_once(self, handle: str, options: str, *, most: int, bytes_max: int) -> list[Got]:
        self.said.append((handle, options, most, bytes_max == UNIT_BYTES_MAX))
        return list(self.result("get", usual=[GOT]))

    def send_at_once(self, data: bytes) -> bool:
        self.said.append((requests.decode_reply(ASKED, data).value, self.beating))
        return bool(self.result("send", usual=True))

    def heard(self) -> Any:
        frame = self.frames.pop(0) if self.frames else None
        if isinstance(frame, Exception):
            raise frame
        return frame

    def hears(self, *frames: Any) -> Callable[[], None]:
        def hear() -> None:
            self.frames += frames
            self.line.heard()

        return hear

    def hand_over(self, *steps: Callable[[], object]) -> tuple[LeftOver | None, list[object]]:
        """Return the left-over of the hand-over, and the calls. The steps run while the connection's own thread sleeps."""
        self.steps = list(steps)
        left = self.line.hand_over(ASKED)
        said, self.said = self.said, []
        return left, said


@pytest.fixture
def kit() -> Kit:
    return Kit()


def got(number: int, most: int) -> list[object]:
    """Return the calls of an exchange that is answered with a message."""
    return ["commit", (f"handle {number}", "options", most, True), "get", (ANSWER, False), "send"]


FIRST, SECOND, BACK = ["connect", *got(1, 7)], got(2, 8), ["disconnect", "over"]


def test_a_line_is_answered_until_no_request_comes_between_two_ticks(kit: Kit) -> None:
    tick = kit.line.tick

    assert (LeftOver(), [*FIRST, *BACK]) == kit.hand_over(tick, tick, tick, kit.line.heard)
    assert (LeftOver(), [*FIRST, *SECOND, "sleep", *BACK]) == kit.hand_over(
        tick, kit.hears(NEXT), tick, lambda: kit.said.append("sleep"), tick
    )
    stream: object = kit.line.stream
    assert "stream" == stream


def test_a_commit_under_way_is_answered_by_the_store_and_is_not_quiet(kit: Kit) -> None:
    kit.results["commit"] = [False]
    beats: list[bool] = []

    def settled() -> None:
        beats.append(kit.beating)
        kit.done(None)
        beats.append(kit.beating)

    ticks = [kit.line.tick] * 2
    assert (LeftOver(), [*FIRST, *BACK]) == kit.hand_over(*ticks, settled, *ticks)
    assert [True, False] == beats


@pytest.mark.parametrize(
    ("results", "said", "left"),
    [
        ({"get": [[]]}, FIRST[:4], LeftOver(settled=ASKED)),
        ({"get": [GONE]}, FIRST[:4], LeftOver(failure=GONE)),
        ({"send": [False]}, FIRST, LeftOver(unsent=True)),
        ({"send": [GONE]}, FIRST, LeftOver(failure=GONE)),
        ({"commit": [GONE]}, ["connect", "commit"], LeftOver(failure=GONE)),
    ],
)
def test_what_a_commit_leaves_over(kit: Kit, results: dict[str, list[Any]], said: list[object], left: LeftOver) -> None:
    kit.results = results

    assert (left, [*said, *BACK]) == kit.hand_over(kit.line.tick, kit.line.heard)


def test_a_refused_commit_is_answered_and_the_line_goes_on(kit: Kit) -> None:
    kit.results["commit"] = [FULL]

    answered = ["connect", "commit", (REFUSAL, False), "send"]
    assert (LeftOver(), [*answered, *SECOND, *BACK]) == kit.hand_over(kit.hears(NEXT), kit.line.tick, kit.line.tick)


BACKOUT = requests.Exchange(1, GetOptions(), commit=False, most=7)


@pytest.mark.parametrize(
    ("frames", "said", "left"),
    [
        ([OPEN], [], LeftOver(frame=OPEN)),  # type: ignore[arg-type]  # a frame is the request itself
        ([BACKOUT], [], LeftOver(frame=BACKOUT)),  # type: ignore[arg-type]  # as above
        ([NEXT, OPEN], SECOND, LeftOver(frame=OPEN)),  # type: ignore[arg-type]  # as above
        ([GONE], [], LeftOver(failure=GONE)),
        (
            [requests.Interrupt(), OPEN],
            [],
            LeftOver(frame=OPEN, interrupted=True),  # type: ignore[arg-type]  # as above
        ),
    ],
)
def test_a_request_that_the_poller_cannot_answer_is_left_over(
    kit: Kit, frames: list[Any], said: list[object], left: LeftOver
) -> None:
    assert (left, [*FIRST, *said, *BACK]) == kit.hand_over(kit.hears(*frames), kit.hears(NEXT))


def test_a_line_of_few_committers_goes_back_to_its_own_thread(kit: Kit) -> None:
    kit.are_many = False

    assert (LeftOver(frame=NEXT), [*FIRST, *BACK]) == kit.hand_over(kit.hears(NEXT))  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize(("error", "said", "settled"), [(None, [], ASKED), (FULL, [(REFUSAL, False), "send"], None)])
def test_a_peer_that_breaks_off_during_its_commit_gets_no_message(
    kit: Kit, error: Exception | None, said: list[object], settled: requests.Exchange | None
) -> None:
    kit.results["commit"] = [False]

    left, calls = kit.hand_over(kit.hears(requests.Interrupt(), NEXT), lambda: kit.done(error))

    assert left is not None
    assert (settled, True, False) == (left.settled, left.interrupted, left.unsent)
    assert (FrameError, "the application sent a request before its answer came") == (type(left.failure), str(left.failure))
    assert ["connect", "commit", "disconnect", *said, *BACK] == calls
    quiet = [kit.line.tick] * 2
    assert (LeftOver(interrupted=True), [*FIRST, *BACK]) == kit.hand_over(*quiet)


def test_without_room_in_the_poller_the_request_is_still_to_be_carried_out(kit: Kit) -> None:
    for error in (OSError(12, "no memory"), RuntimeError("can't start new thread")):
        kit.results["connect"] = [error]

        assert (None, ["connect"]) == kit.hand_over()
