"""Selection strings on a deep queue: the selector evaluates each message once, and misses no message."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.state.objects import ObjectHandle
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.verbs import GetOptions, Got, ObjectDescriptor

BOTH = OpenOption.INPUT_SHARED | OpenOption.BROWSE
WANTED = f"JMSCorrelationID = 'ID:{(b'w' * 24).hex()}'"
FIRST = GetOptions(options=GetOption.BROWSE_FIRST)
TAKE = GetOptions(options=GetOption.SYNCPOINT)


class Room:
    """A queue, a program with a selection string, and a program that puts and gets any message."""

    def __init__(self) -> None:
        self.queue_manager = EmbeddedQueueManager("QM1")
        self.queue_manager.administration.define(QueueAttributes(name="Q", max_depth=100_000))
        self.selecting = self.queue_manager.connect()
        self.selected = self.open(self.selecting)
        self.other = self.queue_manager.connect()
        self.others = self.other.open("Q", BOTH | OpenOption.OUTPUT)

    def open(self, connection: EmbeddedConnection) -> ObjectHandle:
        return connection.open(ObjectDescriptor("Q", selection=WANTED), BOTH)

    def put(self, *, wanted: bool, priority: int = 0, in_unit: bool = False) -> None:
        descriptor = MessageDescriptor(correlation_id=(b"w" if wanted else b"n") * 24, priority=priority)
        self.other.put(self.others, descriptor, b"", PutOption.SYNCPOINT if in_unit else PutOption.NO_SYNCPOINT)

    def commit(self) -> None:
        self.selecting.commit()
        self.other.commit()

    def back_out(self) -> None:
        self.selecting.backout()
        self.other.backout()

    def seen_afresh(self) -> Got | None:
        handle = self.open(self.other)
        got = self.other.get(handle, FIRST)
        self.other.close(handle)
        return got


def counted(room: Room) -> Callable[[], int]:
    """Count the evaluations of the selector, and return a function that returns the count."""
    asked = 0
    selector = room.selected.selector
    assert selector is not None

    def asking(message: object) -> bool:
        nonlocal asked
        asked += 1
        return bool(selector(message))  # type: ignore[arg-type]  # passed on unchanged

    room.selected.selector = asking
    return lambda: asked


def test_a_selector_does_not_evaluate_again_the_messages_it_passed_over() -> None:
    room = Room()
    asked = counted(room)
    for number in range(500):
        room.put(wanted=number >= 450)

    taken = [room.selecting.get(room.selected, TAKE) for _ in range(50)]

    assert None not in taken
    assert asked() == 500


OPERATIONS = st.lists(
    st.sampled_from(
        ["put wanted", "put other", "put high", "put in unit", "take", "take any", "commit", "back out", "lock", "look",
         "clear"]),
    max_size=40,
)  # fmt: skip


@given(OPERATIONS)
def test_an_old_handle_with_a_selector_finds_the_same_messages_as_a_new_handle(operations: list[str]) -> None:
    room = Room()
    steps: dict[str, Callable[[], object]] = {
        "put wanted": lambda: room.put(wanted=True),
        "put other": lambda: room.put(wanted=False),
        "put high": lambda: room.put(wanted=True, priority=7),
        "put in unit": lambda: room.put(wanted=True, in_unit=True),
        "take": lambda: room.selecting.get(room.selected, TAKE),
        "take any": lambda: room.other.get(room.others, TAKE),
        "commit": room.commit,
        "back out": room.back_out,
        "lock": lambda: room.other.get(room.others, GetOptions(options=GetOption.BROWSE_NEXT | GetOption.LOCK)),
        "look": lambda: room.selecting.get(room.selected, GetOptions(options=GetOption.BROWSE_NEXT)),
        "clear": lambda: room.other.get(room.others, GetOptions(options=GetOption.BROWSE_FIRST)),
    }
    for operation in operations:
        steps[operation]()
        seen, afresh = room.selecting.get(room.selected, FIRST), room.seen_afresh()

        assert (seen and seen.message_token) == (afresh and afresh.message_token)
