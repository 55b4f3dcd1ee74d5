"""The changes of the console: redrive and edit. A person sees the plan of a change first; a plan is carried out only once.

A plan contains the identities of its messages. A message that comes to the queue later is not part of the plan, and stays. The
audit log gets a line before and after each change. `Redriver` and the function of `mqflow edit` move the messages.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Final

import click
from msgspec import Struct, field

from mqflow.app.application import App
from mqflow.app.errors import ConfigurationError
from mqflow.cli.console.audit import AuditLog
from mqflow.cli.console.desk import Desk, Where, first_with
from mqflow.cli.console.message_search import is_editable, text_from_form
from mqflow.cli.messages.edit import payload_problem, put_back_edited
from mqflow.cli.messages.poison import disposals, with_failure
from mqflow.cli.messages.redrive import is_wanted as is_wanted_by
from mqflow.cli.messages.redrive import records_of, redrive_name
from mqflow.cli.text.exit_codes import sentence_of
from mqflow.mqi.errors import MQIError
from mqflow.policy.dead_letters.edited_message import body_text, with_text
from mqflow.policy.dead_letters.original_message import restored
from mqflow.policy.poison.failure_groups import failed_message, group_name
from mqflow.policy.reconnect.reason_classes import leaves_in_doubt
from mqflow.runtime.dead_letters.redriver import Redriver, Target
from mqflow.verbs import Connection, Got

__all__ = ("ChangeResult", "Changes", "EditPlan", "RedrivePlan", "RefusedError", "Row", "UnfitBodyError", "original_text")

_EDIT_BYTES_MAX: Final = 1_000_000


class RefusedError(Exception):
    """A change is not possible. The text gives the reason. No message was moved."""


class UnfitBodyError(RefusedError):
    """The message cannot get the typed body. Another body may fit."""


class Row(Struct, frozen=True):
    """The number of messages with the same target and the same result."""

    target: str
    messages: int
    why_not: str = ""


class RedrivePlan(Struct, frozen=True, kw_only=True):
    """The result of a dry run of a redrive: the chosen messages and their target."""

    queue: str
    #: A description of the messages, in words.
    what: str
    #: The target; None if each message goes to the queue that it came from.
    to: Target | None
    #: The number of messages that would move, for each identity.
    identities: Counter[bytes]
    rows: tuple[Row, ...]

    @property
    def messages(self) -> int:
        """The number of messages that would move."""
        return self.identities.total()


class EditPlan(Struct, frozen=True, kw_only=True):
    """A message with a new body. The message is not put yet."""

    queue: str
    seen: Got
    target: Target
    before: str
    after: str
    data: bytes


class ChangeResult(Struct, frozen=True, kw_only=True):
    """The result of a change that was carried out."""

    queue: str
    what: str
    moved: int
    rows: tuple[Row, ...]
    #: The number of messages of the plan that were no longer on the queue.
    gone: int = 0
    #: The reason why the change ended early; empty if it did not.
    error: str = ""
    #: The reason why the audit log has no line with this result; empty if it has this line.
    not_logged: str = ""


class _Moves(Struct):
    """The results of a redrive that runs, so far."""

    rows: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    identities: Counter[bytes] = field(default_factory=Counter[bytes])
    moved: int = 0
    stayed: int = 0
    #: 1 if the commit of the last message got no answer: nobody knows whether this message moved.
    in_doubt: int = 0
    error: str = ""

    def row_tuple(self) -> tuple[Row, ...]:
        return tuple(Row(target, count, why) for (target, why), count in sorted(self.rows.items()))


class _Chosen:
    """Chooses messages for a redriver. Remembers the identity of the message whose result the redriver yields next."""

    def __init__(self, is_wanted: Callable[[Got], bool]) -> None:
        self._is_wanted: Final = is_wanted
        self.identity: bytes = b""

    def __call__(self, got: Got) -> bool:
        self.identity = _identity(got)
        return self._is_wanted(got)


class Changes:
    """Plans changes, and carries them out."""

    def __init__(self, desk: Desk, audit: AuditLog, app: App | None = None) -> None:
        """Take the pages' data, the audit log, and the application whose handlers check edited bodies."""
        self._app: Final = app
        self._desk: Final = desk
        self._audit: Final = audit

    def plan_redrive(
        self,
        queue: str,
        *,
        group: str = "",
        message_id: bytes = b"",
        where: Where | None = None,
        of_tables: frozenset[bytes] | None = None,
        to: str = "",
    ) -> RedrivePlan:
        """Return the plan of a redrive. No message is moved.

        With `message_id`, the plan has this message. With `of_tables`, it has the messages with these MsgIds. Otherwise it has
        all messages of the queue, or those of `group`, that meet the condition `where`.
        """
        target = Target(to) if to else None
        moves = _Moves()
        now = self._desk.now()
        with self._desk.connected() as connection, disposals(self._desk.settings) as last_disposal:

            def is_wanted(got: Got) -> bool:
                if message_id:
                    return got.descriptor.message_id == message_id
                if of_tables is not None:
                    return got.descriptor.message_id in of_tables
                if where and not is_wanted_by(queue, got, [where]):
                    return False
                return (
                    not group
                    or group_name(with_failure(failed_message(got.descriptor, got.body), last_disposal), now=now) == group
                )

            redriver = self._redriver(connection, queue, target)
            redriver.dry_run = True
            chosen = _Chosen(is_wanted)
            redriver.wanted = chosen
            for each in redriver.run():
                moves.rows[str(each.target or "no origin"), each.why_not] += 1
                moves.identities[chosen.identity] += not each.why_not
        what = (
            f"the message {message_id.hex()}"
            if message_id
            else "the messages that a number of the history counts"
            if of_tables is not None
            else "the messages of one failure group"
            if group
            else "all messages"
        ) + (f" with {'='.join(where)}" if where and not message_id else "")
        return RedrivePlan(queue=queue, what=what, to=target, identities=+moves.identities, rows=moves.row_tuple())

    def redrive(self, plan: RedrivePlan, person: str) -> ChangeResult:
        """Move the messages of the plan, each in a unit of work of its own. The result counts the committed moves.

        If the commit of a message gets no answer, the result has a row that says so. This message counts as neither moved nor
        stayed. Raises `RefusedError` if the line before the first move cannot be written; then no message is moved.
        """
        facts = {"action": "redrive", "by": person, "queue": plan.queue, "what": plan.what, "to": str(plan.to or "origin")}
        name = redrive_name(plan.queue)
        self._begin(facts, messages=plan.messages, redrive=name)
        left, moves = Counter(plan.identities), _Moves()
        try:
            self._move(plan, person, name, left, moves)
        except (MQIError, ConfigurationError, OSError) as error:
            moves.error = sentence_of(error)
        except Exception as defect:
            moves.error = f"{type(defect).__name__}: {defect}"
            self._ended(facts, moves, redrive=name)
            raise
        gone = 0 if moves.error else left.total()
        return ChangeResult(
            queue=plan.queue,
            what=plan.what,
            moved=moves.moved,
            rows=moves.row_tuple(),
            gone=gone,
            error=moves.error,
            not_logged=self._ended(facts, moves, gone=gone, redrive=name),
        )

    def _move(self, plan: RedrivePlan, person: str, name: str, left: Counter[bytes], moves: _Moves) -> None:
        """Move the messages in `left`, and count each result in `moves`. Raises the errors of `Redriver.run`."""
        with self._desk.connected() as connection:
            redriver = self._redriver(connection, plan.queue, plan.to)
            redriver.redrive_id = name
            redriver.remark = f"{person} moved it with the console"
            chosen = _Chosen(lambda got: left[_identity(got)] > 0)
            redriver.wanted = chosen
            try:
                for each in redriver.run():
                    left[chosen.identity] -= 1
                    moves.moved += not each.why_not
                    moves.stayed += bool(each.why_not)
                    moves.rows[str(each.target or "no origin"), each.why_not] += 1
            finally:
                if redriver.in_doubt is not None:
                    moves.in_doubt = 1
                    moves.rows[str(redriver.in_doubt.target), redriver.in_doubt.why_not] += 1

    def _begin(self, facts: Mapping[str, str], **more: int | str) -> None:
        """Write the line before the first move. Raises `RefusedError` if the audit log does not take it."""
        try:
            self._audit.write(**facts, event="began", **more)
        except OSError as error:
            why = f"The audit log {self._audit.path} took no line, so nothing was moved: {sentence_of(error)}"
            raise RefusedError(why) from error

    def _ended(self, facts: Mapping[str, str], moves: _Moves, *, gone: int = 0, **more: str) -> str:
        """Write the line with the result. Return why the audit log does not have this line; empty if it does."""
        counts = {"moved": moves.moved, "stayed": moves.stayed, "in_doubt": moves.in_doubt, "gone": gone}
        try:
            self._audit.write(**facts, event="ended", **counts, error=moves.error, **more)
        except OSError as error:
            return f"The audit log {self._audit.path} has no line with this result. {sentence_of(error)}"
        return ""

    def plan_edit(self, queue: str, message_id: bytes, sent: str, *, to: str = "") -> EditPlan:
        """Return the message with the text of a form as its body. Raises `UnfitBodyError`, and the errors of `editable`."""
        seen, before, target = self.editable(queue, message_id, to=to)
        original = restored(seen.descriptor, seen.body)
        after = text_from_form(before, sent)
        if after == before:
            raise UnfitBodyError("The text has not changed. To move the message as it is, use Redrive.")
        try:
            data = with_text(original.descriptor, original.data, after)
        except MQIError as error:
            raise UnfitBodyError(f"The message cannot be put back like this: {error}") from error
        app = self._app
        if app is not None and any(listener.queue == target.queue for listener in app.listeners):
            try:
                why_not = payload_problem(app, target, original, data)
            except Exception as error:  # noqa: BLE001 - code of the application, for example `where` of a listener
                why_not = f"{type(error).__name__}: {error}"
            if why_not:
                raise UnfitBodyError(f"The message cannot be put back like this: {why_not}")
        return EditPlan(queue=queue, seen=seen, target=target, before=before, after=after, data=data)

    def editable(self, queue: str, message_id: bytes, *, to: str = "") -> tuple[Got, str, Target]:
        """Return the message, its text, and its target. Raises `RefusedError` and `MissingMessageError`."""
        with self._desk.connected() as connection:
            seen, same_id = first_with(connection, queue, message_id)
        if same_id > 1:
            raise RefusedError(f"{same_id} messages on {queue} have this MsgId, so the console does not edit one of them.")
        before = restored(seen.descriptor, seen.body)
        target = Target(to) if to else Target(before.origin_queue, before.origin_queue_manager)
        if not target.queue:
            raise RefusedError("The message does not name the queue that it came from: give the target queue.")
        text = original_text(seen)
        if text is None:
            raise RefusedError(
                "A form of a browser cannot give this body back byte for byte. `mqflow edit` opens a text in your editor; "
                "`mqflow capture` and `mqflow replay` work for every body."
            )
        return seen, text, target

    def edit(self, plan: EditPlan, person: str) -> ChangeResult:
        """Put the edited message on its target, in one unit of work. Raises `RefusedError` like `redrive`."""
        identifier = plan.seen.descriptor.message_id.hex()
        facts = {"action": "edit", "by": person, "queue": plan.queue, "what": identifier, "to": str(plan.target)}
        self._begin(facts, messages=1)
        by = f"{person} on the console of {os.uname().nodename}"
        moves = _Moves()
        try:
            with self._desk.connected() as connection:
                put_back_edited(connection, self._desk.settings, plan.queue, plan.seen, plan.target, plan.data, by=by)
            moves.moved = 1
        except click.ClickException as refusal:
            moves.error = refusal.message
            moves.in_doubt = int(isinstance(refusal.__cause__, MQIError) and leaves_in_doubt(refusal.__cause__))
            moves.stayed = 1 - moves.in_doubt
        except MQIError as error:  # there was no connection
            moves.error, moves.stayed = sentence_of(error), 1
        except Exception as defect:
            moves.error = f"{type(defect).__name__}: {defect}"
            self._ended(facts, moves)
            raise
        return ChangeResult(
            queue=plan.queue,
            what=f"the edited message {identifier}",
            moved=moves.moved,
            rows=(Row(str(plan.target), 1, moves.error),),
            not_logged=self._ended(facts, moves),
        )

    def _redriver(self, connection: Connection, queue: str, to: Target | None) -> Redriver:
        return Redriver(
            connection=connection,
            queue=queue,
            wanted=lambda _: False,
            to=to,
            clock=self._desk.clock,
            pause=lambda _: None,
            times_max=sys.maxsize,  # the plan has every copy of a message, and `redrive` moves each
            records=records_of(self._desk.settings, "mqflow console"),
        )


def _identity(got: Got) -> bytes:
    """Return a hash of MsgId, CorrelId and data. The data include why the message failed, so twins of two groups differ."""
    return blake2b(got.descriptor.message_id + got.descriptor.correlation_id + got.body, digest_size=16).digest()


def original_text(seen: Got) -> str | None:
    """Return the text of the message before its move. None if a form of a browser cannot return the same text."""
    before = restored(seen.descriptor, seen.body)
    if len(seen.body) > _EDIT_BYTES_MAX:
        return None
    text = body_text(before.descriptor, before.data)
    return text if text is not None and is_editable(text) else None
