"""An open object: what was opened, through which definitions, and what its connection remembers about it.

State only; the steps that change it are in `opening`, `getting` and `browse`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mqflow.embedded.rules.group_order import Retained
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.backlog import BEFORE_FIRST, LocalQueue
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import ObjectType, OpenOption
from mqflow.mqi.reason_codes import Reason

if TYPE_CHECKING:  # a handle remembers them; what they are is not its business
    from mqflow.embedded.calls.wait import Waiter
    from mqflow.embedded.connection import EmbeddedConnection
    from mqflow.embedded.rules.get_plan import GetPlan
    from mqflow.mqi.selectors.selector import Selector
    from mqflow.verbs import GetOptions

__all__ = ("INPUT", "Definition", "EmbeddedHandle")

INPUT: Final = int(OpenOption.INPUT_AS_Q_DEF | OpenOption.INPUT_SHARED | OpenOption.INPUT_EXCLUSIVE)


class Definition:
    """A queue definition that is no queue: an alias or a model. `attributes` changes when it is altered."""

    __slots__ = ("attributes", "changes", "handles")

    def __init__(self, attributes: QueueAttributes) -> None:
        self.attributes = attributes
        self.handles: set[EmbeddedHandle] = set()
        #: How often it was altered under its open handles (FORCE): those of before get 2041.
        self.changes = 0


class EmbeddedHandle:
    """Hobj. `bits` is what it was opened for as a plain number, because flags are slow to test one by one."""

    __slots__ = (
        "alias",
        "bits",
        "connection",
        "creator",
        "cursor",
        "get_options",
        "get_plan",
        "locked",
        "logical",
        "marks",
        "name",
        "object_type",
        "open",
        "options",
        "passed_over",
        "queue",
        "saved_context",
        "seen_changes",
        "selector",
        "takes_queue_along",
        "topic",
        "trail",
        "waiter",
    )

    def __init__(self, connection: "EmbeddedConnection", name: str, options: OpenOption, object_type: ObjectType) -> None:
        self.connection = connection
        self.name = name
        self.options = options
        self.bits = int(options)
        self.object_type = object_type
        self.open = True
        #: The local queue it reaches; None for the queue manager itself and for a topic.
        self.queue: LocalQueue | None = None
        #: The whole topic string, of a topic.
        self.topic: str | None = None
        #: Whether the managed queue goes when this handle closes, because its subscription is over.
        self.takes_queue_along = False
        #: The alias it was opened through.
        self.alias: Definition | None = None
        #: `changes` of queue and alias when it was opened.
        self.seen_changes = 0
        #: Whether this open made the dynamic queue.
        self.creator = False
        #: Key of the message last browsed.
        self.cursor = BEFORE_FIRST
        #: Where the cursor was before and after each of the messages that were browsed in one call.
        self.trail: Sequence[int] = ()
        #: Key of the message browsed with MQGMO_LOCK.
        self.locked: int | None = None
        #: Where puts, gets and browses of groups and segments left off.
        self.logical = Retained()
        #: Keys of the messages marked for this handle.
        self.marks: set[int] = set()
        #: Descriptor of the last message taken, where it was opened with SAVE_ALL_CONTEXT.
        self.saved_context: MessageDescriptor | None = None
        self.waiter: Waiter | None = None
        #: Of the selection string it was opened with.
        self.selector: Selector | None = None
        #: The selector holds of no available message up to this place: they are not asked again.
        self.passed_over = BEFORE_FIRST
        # The last options used and what they mean: an application gets with the same ones again and again.
        self.get_options: GetOptions | None = None
        self.get_plan: GetPlan | None = None

    def go_back(self, count: int) -> None:
        """Have the cursor where it was before so many of the messages that were browsed last, in one call."""
        if not 0 < count < len(self.trail) or self.trail[-1] != self.cursor:
            raise Refusal(Reason.NO_MSG_UNDER_CURSOR, "There is no such place to go back to")
        self.cursor = self.trail[-1 - count]

    @property
    def resolved_queue(self) -> str:
        """The local queue behind an alias; empty for the queue manager and for a topic."""
        return "" if self.queue is None else self.queue.name

    @property
    def resolved_queue_manager(self) -> str:
        """Nobody else's: there are no remote queues here."""
        return ""
