"""Compares the DLQ handler with a model of "Processing the rules table": any table, any messages, any refusals.

The model, `reading`, follows only the page, sentence by sentence, and shares no code with the handler.
"""

from collections import defaultdict
from collections.abc import Iterator

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from mqflow.events import DeadLetterActed
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.policy.dead_letters.actions import Ignore
from mqflow.testing.dead_letters import put_dead_letter, run_rules
from mqflow.testing.kit import QueueManagerKit
from tests.queue_contents import taken

DLQ = "DLQ"
RETRY_INTERVAL_S = 7
TAKING, SHUT, MISSING = "TAKING", "SHUT", "MISSING"


class Letter(Struct, frozen=True):
    """A message on the dead-letter queue, with the fields that the rules of this test read."""

    destination: str
    reason: int
    user: str


class Line(Struct, frozen=True):
    """A rule of the table."""

    #: The fields that must be equal; None for a field that the rule does not name.
    destination: str | None
    reason: int | None
    #: The first letter of the user; any text can follow.
    user: str | None
    action: str
    target: str
    retry: int | None

    def __str__(self) -> str:
        said = [
            f"DESTQ({self.destination})" if self.destination else "",
            f"REASON({self.reason})" if self.reason else "",
            f"USERID('{self.user}*')" if self.user else "",
            f"ACTION({self.action})",
            f"FWDQ({self.target})" if self.action == "FWD" else "",
            f"RETRY({self.retry})" if self.retry else "",
        ]
        return " ".join(filter(None, said))


def reading(lines: list[Line], letter: Letter) -> Iterator[tuple[int, str, bool]]:
    """Yield each attempt: the number of its rule, its target ("" for none), and whether the attempt succeeds."""
    # "The search begins with the first rule in the table, and continues sequentially through the table."
    for number, line in enumerate(lines):
        if line.destination not in {None, letter.destination} or line.reason not in {None, letter.reason}:
            continue
        if line.user is not None and not letter.user.startswith(line.user):
            continue
        # "When a rule with a matching pattern is found, the rules table attempts the action from that rule."
        if line.action == "IGNORE":
            return
        # "If the first attempt fails, the attempt is repeated until the count of attempts made matches the number specified on
        # the RETRY keyword."
        for _ in range(line.retry or 1):
            target = {"RETRY": letter.destination, "FWD": line.target, "DISCARD": ""}[line.action]
            succeeds = target in {"", TAKING}
            yield number, target, succeeds
            if succeeds:
                return
        # "If all attempts fail, the DLQ handler searches for the next matching rule in the table."
    # "When each matching rule has been attempted the number of times specified on its RETRY keyword, and all attempts have
    # failed, ACTION (IGNORE) is assumed. ACTION (IGNORE) is also assumed if no matching rule is found."


queues = st.sampled_from([TAKING, SHUT, MISSING])
reasons = st.sampled_from([2053, 2051, 2085])
letters = st.builds(Letter, queues, reasons, st.sampled_from(["anna", "arne", "bert"]))
rule_lines = st.builds(
    Line, st.none() | queues, st.none() | reasons, st.none() | st.sampled_from(["a", "an", "b"]),
    st.sampled_from(["RETRY", "FWD", "DISCARD", "IGNORE"]), queues, st.none() | st.integers(1, 4),
)  # fmt: skip


@given(st.lists(rule_lines, min_size=1, max_size=4), st.lists(letters, max_size=5))
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
def test_every_message_ends_as_the_page_says(lines: list[Line], given_letters: list[Letter]) -> None:
    kit = QueueManagerKit()
    for queue in (DLQ, TAKING):
        kit.define(queue)
    kit.define(SHUT, put="DISABLED")
    connection = kit.queue_manager.connect()
    put: dict[bytes, Letter] = {}
    for letter in given_letters:
        descriptor = MessageDescriptor(user_identifier=letter.user)
        made = put_dead_letter(connection, DLQ, b"body", reason=letter.reason, queue=letter.destination, descriptor=descriptor)
        put[made.descriptor.message_id] = letter
    times: dict[bytes, list[float]] = defaultdict(list)
    kit.events = _Timed(kit, times)

    table = "\n".join([f"RETRYINT({RETRY_INTERVAL_S}) WAIT(100)", *map(str, lines)])
    acted = run_rules(kit, table, queue=DLQ)

    for message_id, letter in put.items():
        expected = list(reading(lines, letter))
        of_this = [each for each in acted if each.message_id == message_id and not isinstance(each.intent, Ignore)]
        assert [(f"line {number + 2}", succeeds) for number, _, succeeds in expected] == [
            (each.rule, not each.reason) for each in of_this
        ]
        assert [attempt * RETRY_INTERVAL_S for attempt in range(len(expected))] == times[message_id]
    ends = {message_id: _end(list(reading(lines, letter))) for message_id, letter in put.items()}
    for queue in (DLQ, TAKING):
        left = [got.descriptor.message_id for got in taken(kit.queue_manager, queue)]
        assert [message_id for message_id, end in ends.items() if end == queue] == sorted(left)
    kit.close()


def _end(attempts: list[tuple[int, str, bool]]) -> str:
    """Return the queue that the message is on after these attempts."""
    return attempts[-1][1] if attempts and attempts[-1][2] else DLQ


class _Timed(list):  # type: ignore[type-arg]  # a list of events that notes when each attempt was made
    def __init__(self, kit: QueueManagerKit, times: dict[bytes, list[float]]) -> None:
        super().__init__()
        self._kit, self._times = kit, times

    def append(self, event: object) -> None:
        super().append(event)
        if isinstance(event, DeadLetterActed) and not isinstance(event.intent, Ignore):
            self._times[event.message_id].append(self._kit.clock.monotonic())
