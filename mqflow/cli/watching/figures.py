"""The figures of an application's queues: the depth, and the age of the oldest message.

The depth needs only the authority to inquire (MQINQ). The embedded queue manager returns the age too. IBM MQ returns the age
only through its command server, and this needs more authorities. So `OldestAges` is used only if the settings ask for it.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from mqflow.cli.connection_options import administered
from mqflow.cli.text.terminal import note, safe
from mqflow.cli.watching.control import Figures, QueueFigures
from mqflow.many_verbs import disconnect_without_commit, inquire_base_queue
from mqflow.mqi.attributes.queue import NOT_APPLICABLE
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import Encoding, Format, GetOption, MessageType, OpenOption, Persistence, PutOption, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect.reason_classes import Class, classify
from mqflow.verbs import Connection, GetOptions, QueueManager
from mqflow.world import SYSTEM_CLOCK, SYSTEM_WORLD, Clock, Event, World

__all__ = ("OldestAges", "ask_status", "figures", "figures_of_all", "within")

_CURRENT_Q_DEPTH: Final = 3
"""MQIA_CURRENT_Q_DEPTH."""
_OLDEST_MSG_AGE: Final = 1227
"""MQIACF_OLDEST_MSG_AGE."""
_COMMAND_QUEUE: Final = "SYSTEM.ADMIN.COMMAND.QUEUE"
_REPLIES: Final = "SYSTEM.DEFAULT.MODEL.QUEUE"
_ANSWER_S: Final = 1.0
_COMMAND: Final = MessageDescriptor(
    format=Format.ADMIN,
    message_type=MessageType.REQUEST,
    persistence=Persistence.NOT_PERSISTENT,
    encoding=Encoding.NATIVE,
    ccsid=1208,
    expiry_tenths=50,  # so that commands do not fill the queue if no command server runs
    report=Report.PASS_DISCARD_AND_EXPIRY | Report.DISCARD_MSG,  # an answer that comes too late must not become a dead letter
)


class OldestAges:
    """Asks the command server of IBM MQ for the ages of the oldest messages (MSGAGE).

    Each refusal for lack of authority adds an entry to the error log of the queue manager. So if the command server refuses
    this user, this object asks no more. If it refuses one queue, this object does not ask for that queue again.
    """

    def __init__(self, *, wait_s: float = _ANSWER_S, clock: Clock = SYSTEM_CLOCK) -> None:
        """Make an object that knows of no refusal. `wait_s` is the longest wait for all answers together."""
        self._wait_s: Final = wait_s
        self._clock: Final = clock
        self._is_refused = False
        self._refused: Final[set[str]] = set()

    def __call__(self, connection: Connection, queues: Sequence[str]) -> dict[str, int]:
        """Return the ages in seconds, by queue, that the command server returns in time. Never raises `MQIError`."""
        asked = [queue for queue in queues if queue not in self._refused]
        if self._is_refused or not asked:
            return {}
        try:
            ages, refused = ask_status(connection, asked, _OLDEST_MSG_AGE, wait_s=self._wait_s, clock=self._clock)
        except MQIError as error:
            if classify(int(error.reason)) is Class.CONFIGURATION:
                self._is_refused = True
                note(f"The age of the oldest message on a queue stays unknown. {safe(str(error))}")
            return {}
        self._refused.update(refused)
        return ages


def ask_status(
    connection: Connection, queues: Sequence[str], attribute: int, *, wait_s: float = _ANSWER_S, clock: Clock = SYSTEM_CLOCK
) -> tuple[dict[str, int], set[str]]:
    """Ask the command server of IBM MQ for a number in the status of each queue (`mqi.pcf.queue_status`).

    Returns the numbers, by queue, that the command server returns in time, and the queues that it refuses.
    """
    from mqflow.mqi.pcf.pcf_reader import parse  # noqa: PLC0415 - most applications do not ask
    from mqflow.mqi.pcf.queue_status import inquire_status, number_in  # noqa: PLC0415 - as above

    replies = connection.open(_REPLIES, OpenOption.INPUT_EXCLUSIVE | OpenOption.FAIL_IF_QUIESCING)
    try:
        how = PutOption.NO_SYNCPOINT | PutOption.FAIL_IF_QUIESCING
        waiting: dict[bytes, str] = {}
        for queue in queues:
            body = inquire_status(queue, attribute, encoding=_COMMAND.encoding, ccsid=_COMMAND.ccsid)
            put = connection.put1(_COMMAND_QUEUE, replace(_COMMAND, reply_to_queue=replies.name), body, how)
            waiting[put.descriptor.message_id] = queue
        until = clock.monotonic() + wait_s
        numbers: dict[str, int] = {}
        refused: set[str] = set()
        while waiting:
            wait_ms = max(0, round((until - clock.monotonic()) * 1_000))
            options = GetOption.NO_SYNCPOINT | GetOption.WAIT | GetOption.FAIL_IF_QUIESCING
            options |= GetOption.PROPERTIES_FORCE_MQRFH2
            got = connection.get(replies, GetOptions(options=options, wait_ms=wait_ms))
            if got is None:
                break
            answer = parse(got.body, encoding=got.descriptor.encoding, ccsid=got.descriptor.ccsid)
            about = got.descriptor.correlation_id
            queue = waiting.pop(about, "") if answer.header.last else waiting.get(about, "")
            number = number_in(answer, attribute)
            if number is not None:
                numbers[queue] = number
            if answer.header.reason:
                refused.add(queue)
        return numbers, refused
    finally:
        with suppress(MQIError):
            connection.close(replies)


def figures(queue_manager: QueueManager, queues: Sequence[str], ages: OldestAges | None = None) -> tuple[QueueFigures, ...]:
    """Return the figures for each queue, through a new connection. A refusal is part of the result.

    `ages` asks IBM MQ for the ages. If it is None, the ages are not known on IBM MQ.
    """
    try:
        connection = queue_manager.connect(application_name="mqflow status")
    except MQIError as error:
        return tuple(QueueFigures(queue=queue, refused=str(error)) for queue in queues)
    found: list[QueueFigures] = []
    locals_of: dict[str, str] = {}
    try:
        with administered(queue_manager) as administration:
            for queue in queues:
                try:
                    local, depth = queue, _depth(connection, queue)
                    if depth is None:
                        local = inquire_base_queue(connection, queue).name
                        depth = _depth(connection, local)
                    locals_of[queue], age_s, uncommitted = local, None, None
                    if administration is not None:
                        with suppress(MQIError):
                            status = administration.queue_status(local)
                            age_s, uncommitted = status.oldest_message_age_s, status.uncommitted
                    refused = f"{local} is not a local queue, so it has no depth." if depth is None else ""
                    found.append(
                        QueueFigures(
                            queue=queue, depth=depth, oldest_message_age_s=age_s, uncommitted=uncommitted, refused=refused
                        )
                    )
                except MQIError as error:
                    found.append(QueueFigures(queue=queue, refused=str(error)))
        if administration is None and ages is not None:
            known = ages(connection, [*dict.fromkeys(locals_of[each.queue] for each in found if each.depth)])
            found = [replace(each, oldest_message_age_s=known.get(locals_of.get(each.queue, ""))) for each in found]
    finally:
        disconnect_without_commit(connection)
    return tuple(found)


def _depth(connection: Connection, queue: str) -> int | None:
    """Return the depth. None if the queue has no messages of its own, like an alias or a remote queue."""
    handle = connection.open(queue, OpenOption.INQUIRE)
    try:
        depth = int(connection.inquire(handle, [_CURRENT_Q_DEPTH]).values[_CURRENT_Q_DEPTH])
    except MQIError as error:
        if error.reason != Reason.SELECTOR_NOT_FOR_TYPE:
            raise
        return None
    finally:
        connection.close(handle)
    return None if depth == NOT_APPLICABLE else depth


def figures_of_all(by_name: Mapping[str, Figures]) -> Figures:
    """Return a function for the queues of several queue managers. It accepts names such as `archive:ORDERS.IN`.

    The part before the colon is the name of the queue manager. This part is missing for the queue manager whose name is "".
    """

    def inquire(queues: Sequence[str], /) -> tuple[QueueFigures, ...]:
        found = dict[str, QueueFigures]()
        for name, own in by_name.items():
            prefix = f"{name}:" if name else ""
            mine = [queue for queue in queues if queue.rpartition(":")[0] == name]
            for each in own([queue.removeprefix(prefix) for queue in mine]):
                found[prefix + each.queue] = replace(each, queue=prefix + each.queue)
        return tuple(found[queue] for queue in queues)

    return inquire


def within(
    limit_s: float, inquire: Callable[[Sequence[str]], tuple[QueueFigures, ...]], world: World = SYSTEM_WORLD
) -> Figures:
    """Return a function that answers within `limit_s`. If the queue manager takes longer, the answer has no depths.

    While an inquiry runs, no second inquiry begins: a second caller waits until the first inquiry ends, within the same limit.
    """
    guard, running = world.runner.lock(), list[Event]()

    def limited(queues: Sequence[str], /) -> tuple[QueueFigures, ...]:
        if not queues:
            return ()
        answers: list[tuple[QueueFigures, ...]] = []
        done, until = world.runner.event(), world.clock.monotonic() + limit_s

        def work() -> None:
            try:
                answers.append(inquire(queues))
            except Exception as error:  # noqa: BLE001 - for example an application that ends meanwhile; the scrape must not fail
                answers.append(tuple(QueueFigures(queue=queue, refused=f"{type(error).__name__}: {error}") for queue in queues))
            finally:
                running.clear()
                done.set()

        while not answers:
            with guard:
                current = next(iter(running), None)
                if current is None:
                    running.append(done)
            if current is None:
                world.runner.start(work, "mqflow figures")
            if not (current or done).wait(max(0.0, until - world.clock.monotonic())):
                refused = f"The queue manager has not answered within {limit_s:g} s."
                return tuple(QueueFigures(queue=queue, refused=refused) for queue in queues)
        return answers[0]

    return limited
