"""An `Administration` for the tests of MQSC. It keeps definitions in a dictionary and has no messages."""

from collections.abc import Mapping

from msgspec.structs import replace

from mqflow.embedded.administration.interface import QueueManagerStatus, QueueStatistics, QueueStatus
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason


class Definitions:
    """Keeps the definitions. A test sets `statuses` and `refusals` to the answers that it needs."""

    def __init__(self) -> None:
        self.queue_manager = QueueManagerAttributes(name="QM1")
        self.by_name: dict[str, QueueAttributes] = {}
        self.statuses: dict[str, QueueStatus] = {}
        self.refusals: dict[str, Reason] = {}
        # The administrations of a real queue manager, because a dictionary is not simpler here.
        real = EmbeddedQueueManager("QM1").administration
        self.authorities, self.publishing, self.objects = real.authorities, real.publishing, real.objects
        self.channels = real.channels
        self.calls: list[tuple[object, ...]] = []

    def queues(self) -> tuple[QueueAttributes, ...]:
        return tuple(self.by_name[name] for name in sorted(self.by_name))

    def queue(self, name: str) -> QueueAttributes | None:
        return self.by_name.get(name)

    def define(self, attributes: QueueAttributes, *, replace: bool = False) -> None:
        existing = self.by_name.get(attributes.name)
        if existing and not (replace and existing.kind == attributes.kind):
            raise error_for(Reason.OBJECT_ALREADY_EXISTS, "DEFINE", attributes.name, "QM1")
        self.by_name[attributes.name] = attributes

    def alter(self, name: str, changes: Mapping[str, object], *, force: bool = False) -> None:
        self._called("alter", name, force)
        self.by_name[name] = replace(self.by_name[name], **changes)

    def delete(self, name: str, *, purge: bool = False, keep_authorities: bool = False) -> None:
        self._called("delete", name, purge, *(("keeps authorities",) if keep_authorities else ()))
        del self.by_name[name]

    def clear(self, name: str) -> None:
        self._called("clear", name)

    def alter_queue_manager(self, changes: Mapping[str, object]) -> None:
        self.queue_manager = replace(self.queue_manager, **changes)

    def reset_queue_statistics(self, name: str) -> QueueStatistics:
        return QueueStatistics(name=name, enqueued=0, dequeued=0, high_depth=0, since_reset_s=0)

    @property
    def status(self) -> QueueManagerStatus:
        return QueueManagerStatus(name="QM1", status=2, connection_count=0, started_date="", started_time="")

    def report_command(self, text: str, *, shows: bool) -> None:
        """Nobody asks for command events here."""

    def queue_status(self, name: str) -> QueueStatus:
        return self.statuses[name]

    def _called(self, verb: str, name: str, *arguments: object) -> None:
        if name in self.refusals:
            raise error_for(self.refusals[name], verb.upper(), name, "QM1")
        self.calls.append((verb, name, *arguments))
