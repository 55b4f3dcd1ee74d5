"""`mqflow edit`: opens a message of a backout or dead-letter queue in an editor, checks the result, and puts it back."""

import getpass
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

import click
from msgspec import Struct
from msgspec.structs import replace

from mqflow.app.application import App
from mqflow.app.config.settings import Settings, load
from mqflow.app.handlers.message import Message
from mqflow.app.run.decision_ledger import DecisionLedger, LedgerError, open_ledger
from mqflow.cli.applications.application_loader import load_application
from mqflow.cli.connection_options import connected
from mqflow.cli.messages.browse import browse
from mqflow.cli.messages.redrive import ORIGIN, records_of
from mqflow.cli.messages.units_of_work import uninterrupted
from mqflow.cli.option_types import json_option, queue_argument, url_option
from mqflow.cli.text.exit_codes import EXIT_NOTHING
from mqflow.cli.text.json_lines import json_line
from mqflow.cli.text.terminal import note, safe
from mqflow.events import Edited
from mqflow.mqi.errors import MQIError
from mqflow.policy.dead_letters.edited_message import body_text, with_text
from mqflow.policy.dead_letters.original_message import Restored, restored
from mqflow.policy.poison.outcomes import UndecodableError
from mqflow.runtime.dead_letters.redriver import Redriver, Target
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.verbs import Connection, Got
from mqflow.world import SYSTEM_CLOCK

__all__ = ("MovedMessage", "command", "move_edited", "payload_problem", "put_back_edited")

_DIGITS_MIN: Final = 8


@click.command("edit")
@queue_argument
@click.argument("message_id", metavar="MSGID")
@click.option("--to", "to", default=ORIGIN, show_default=True, metavar="origin|QUEUE", help="The queue to put the message on.")
@click.option("--app", "application", metavar="MODULE:APP", help="Check the new body against the handler of that queue.")
@json_option
@url_option
def command(queue: str, message_id: str, to: str, application: str | None, *, as_json: bool, url: str | None) -> None:
    """Open the body of a message on QUEUE in $VISUAL or $EDITOR.

    Put the edited message on the queue that the message came from.

    MSGID is the identifier in hexadecimal digits; at least 8 digits of its beginning or end are enough. The message stays on
    QUEUE while the editor is open. Then the command gets it and puts the new message, as `mqflow redrive` does, in one unit of
    work: whatever fails, there is exactly one copy. Only the body changes; MsgId, properties and context stay.

    With --app, the body must become the payload of the handler. Without a change of the text nothing is moved, and the
    exit code is 3. The decision ledger, and the disposition queue of the settings, name the person that changed the message,
    with a hash of both bodies.
    """
    app = None if application is None else load_application(application)
    with connected(url) as connection:
        seen = _find(connection, queue, message_id)
    before = restored(seen.descriptor, seen.body)
    target = Target(to) if to != ORIGIN else Target(before.origin_queue, before.origin_queue_manager)
    if not target.queue:
        raise click.UsageError("The message does not name the queue that it came from: give it with --to QUEUE.")
    text = body_text(before.descriptor, before.data)
    if text is None:
        raise click.ClickException(f"The body of {seen.descriptor.message_id.hex()} is no text, so it cannot be edited.")
    folder = Path(tempfile.mkdtemp(prefix="mqflow-edit-"))  # only its owner can read this folder
    file = folder / f"{seen.descriptor.message_id.hex()}.txt"
    file.write_bytes(text.encode())
    is_needed = True  # the edited text
    try:
        data = _edited(file, before, text, lambda data: payload_problem(app, target, before, data))
        is_needed = data != before.data
        if not is_needed:
            note("The text has not changed, so nothing was moved.")
            sys.exit(EXIT_NOTHING)
        settings = load({"url": url})
        by = f"{_user()}@{os.uname().nodename}"
        with connected(url) as connection, uninterrupted():  # after a Ctrl-C too, the command says that the message moved
            moved = put_back_edited(connection, settings, queue, seen, target, data, by=by)
            is_needed = False
            line = f"{moved.message_id} is on {safe(moved.to)} now, with {moved.body_bytes:,} bytes."
            click.echo(json_line(moved) if as_json else line)
    finally:
        if is_needed and file.exists() and file.read_bytes() != text.encode():
            note(f"The edited text is still in {file}. Delete its folder when you do not need it any more.")
        else:
            _delete(folder)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container can run under a user number without a name
        return f"user {os.getuid()}"


def _delete(folder: Path) -> None:
    """Delete the folder with the text, and all copies that the editor left there. If it cannot be deleted, print its name."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        note(f"{folder} has a text of the message. Delete this folder.")


class MovedMessage(Struct, frozen=True, kw_only=True):
    """The result of the move, in the form that `--json` prints."""

    message_id: str
    queue: str
    to: str
    by: str
    body_bytes_before: int
    body_bytes: int


def _find(connection: Connection, queue: str, digits: str) -> Got:
    """Return the only message whose MsgId begins or ends with these digits. Otherwise end the command with exit code 3."""
    wanted = digits.lower().removeprefix("..")
    if len(wanted) < _DIGITS_MIN or not all(letter in "0123456789abcdef" for letter in wanted):
        raise click.BadParameter(f"{digits!r} is not {_DIGITS_MIN} or more hexadecimal digits of a message identifier.")
    found: list[Got] = []
    for got in browse(connection, queue):
        shown = got.descriptor.message_id.hex()
        if shown.startswith(wanted) or shown.endswith(wanted):
            found.append(got)
    if len(found) == 1:
        return found[0]
    if found:
        note(f"{len(found)} messages on {safe(queue)} have {digits}; nothing was moved:")
        for got in found:
            click.echo(got.descriptor.message_id.hex())
    else:
        note(f"There is no message {safe(digits)} on {safe(queue)}.")
    sys.exit(EXIT_NOTHING)


# -- the editor


def _edited(file: Path, before: Restored, text: str, problem: Callable[[bytes], str]) -> bytes:
    """Return the data with the edited text. If the text cannot be used, ask whether to open the editor again."""
    while True:
        _run_editor(file)
        try:
            written = file.read_bytes().decode()
            if written.endswith("\n") and not text.endswith("\n"):  # editors add a line end to the last line
                written = written.removesuffix("\n").removesuffix("\r")
            data = with_text(before.descriptor, before.data, written)
        except (MQIError, UnicodeError) as error:
            why_not = str(error)
        else:
            why_not = problem(data)
            if not why_not:
                return data
        note(f"The message cannot be put back like this: {safe(why_not)}")
        if not sys.stdin.isatty() or not click.confirm("Edit it again?", default=True, err=True):
            raise click.ClickException("Nothing was moved.")


def _run_editor(file: Path) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        # Run by a shell, as git does, because the variable can contain options.
        code = subprocess.run(["/bin/sh", "-c", f'{editor} "$1"', editor, str(file)], check=False).returncode  # noqa: S603 - the user's own editor
    except OSError as error:
        raise click.ClickException(f"The editor {editor!r} cannot be started: {error}. Nothing was moved.") from error
    if code:
        raise click.ClickException(f"The editor {editor!r} ended with {code}. Nothing was moved.")


def payload_problem(app: App | None, target: Target, before: Restored, data: bytes) -> str:
    """Return why no handler of the application accepts this message, or an empty text."""
    if app is None:
        return ""
    listeners = [listener for listener in app.listeners if listener.queue == target.queue]
    if not listeners:
        known = ", ".join(listener.queue for listener in app.listeners)
        return f"the application has no listener on {target.queue}; it has {known or 'no listener'}."
    message = Message(before.descriptor, data, target.queue)
    for listener in listeners:
        for handler in listener.handlers:
            try:
                if handler.where is None or handler.where(message):
                    if handler.decode is not None:
                        handler.decode(message)
                    return ""
            except UndecodableError as error:
                return f"{handler.name} does not take it: {error}"
    return f"no handler of {target.queue} takes it."


# -- the move


def put_back_edited(
    connection: Connection, settings: Settings, queue: str, seen: Got, target: Target, data: bytes, *, by: str
) -> MovedMessage:
    """Move the message `seen` to the target, with this data. Record the move; `by` is the person that changed the data.

    Raises the errors of `move_edited`. Raises `ClickException` too, and moves nothing, if neither the ledger can be written
    nor the settings name a disposition queue. If the data has no ledger, the message moves, and a note says so.
    """
    before = restored(seen.descriptor, seen.body)
    event = Edited(
        queue=queue,
        message_id=seen.descriptor.message_id,
        target=str(target),
        by=by,
        sha256_before=sha256(before.data).hexdigest(),
        sha256=sha256(data).hexdigest(),
        body_bytes_before=len(before.data),
        body_bytes=len(data),
    )
    records = records_of(settings, "mqflow edit")
    at = datetime.fromtimestamp(SYSTEM_CLOCK.wall(), UTC)
    redrive_id = f"edit by {by} {at:%Y-%m-%dT%H:%M:%S.%fZ}"
    ledger = open_ledger(settings.url, settings.ledger)
    if ledger is not None and records is None:
        _check_writable(ledger, queue)
    move_edited(connection, queue, seen, target, data, event, records, redrive_id=redrive_id)
    if ledger is not None:
        ledger(event)
        ledger.close()
    if (ledger is None or ledger.dropped) and records is None:
        why = "the data has no ledger here" if ledger is None else "the ledger could not be written"
        note(f"There is no record of this change: {why}, and the settings name no disposition_queue.")
    return MovedMessage(
        message_id=event.message_id.hex(),
        queue=queue,
        to=str(target),
        by=by,
        body_bytes_before=event.body_bytes_before,
        body_bytes=event.body_bytes,
    )


def _check_writable(ledger: DecisionLedger, queue: str) -> None:
    try:
        ledger.check_writable()
    except LedgerError as error:
        raise click.ClickException(
            f"The message is on {queue}, unchanged. {error} Repair or remove this file, or name a disposition_queue in the "
            "settings."
        ) from error


def move_edited(
    connection: Connection,
    queue: str,
    seen: Got,
    target: Target,
    data: bytes,
    event: Edited,
    records: ConnectionRecorder | None,
    *,
    redrive_id: str,
) -> None:
    """Get the message `seen`, and put it on the target with this data, in one unit of work.

    Raises `ClickException` if the message was not moved; it is then on its queue, unchanged. If the commit got no answer, the
    error says that nobody knows whether the message was moved.
    """
    redriver = Redriver(
        connection=connection,
        queue=queue,
        wanted=lambda got: _same(got, seen),
        to=target,
        clock=SYSTEM_CLOCK,
        pause=lambda _: None,
        records=records,
        redrive_id=redrive_id,
        change=lambda before: replace(before, data=data),
        remark=f"{event.by} edited it. SHA-256 before: {event.sha256_before}, after: {event.sha256}",
    )
    moves = redriver.run()
    try:
        moved = next(moves, None)
    except MQIError as error:
        if error.verb != "MQCMIT":
            raise click.ClickException(f"The message is on {queue}, unchanged. {error}") from error
        raise click.ClickException(
            f"Nobody knows whether the message moved: there is one copy, either unchanged on {queue}, or edited on {target}. "
            f"Look for {seen.descriptor.message_id.hex()} on both queues. {error}"
        ) from error
    finally:
        moves.close()
    if moved is None:
        raise click.ClickException(f"The message has left {queue} since it was read. Nothing was moved.")
    if moved.why_not:
        raise click.ClickException(f"The message is on {queue}, unchanged. {moved.why_not}")


def _same(got: Got, seen: Got) -> bool:
    """Return whether both are the same message. Its expiry can be shorter now than in `seen`, because time has passed."""
    expiry = seen.descriptor.expiry_tenths
    return replace(got.descriptor, expiry_tenths=expiry) == seen.descriptor and got.body == seen.body
