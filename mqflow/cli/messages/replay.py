"""`mqflow replay`: captured messages put on a queue as they were, or given to a handler on a queue manager in memory."""

import sys
from pathlib import Path
from typing import Final

import anyio
import click

from mqflow.app.application import App
from mqflow.app.captures import Captured, read_captures
from mqflow.cli.applications.load import application
from mqflow.cli.connection_options import connected, url_option
from mqflow.cli.text.exit_codes import EXIT_FAILED, EXIT_NOTHING
from mqflow.cli.text.story import sentences
from mqflow.cli.text.terminal import counted, note, safe
from mqflow.cli.text.text_input import read_text
from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import Disposed, Event, Settled
from mqflow.many_verbs import open_to_put
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.policy.poison.disposition import Completed, Settlement
from mqflow.verbs import Connection
from mqflow.world import SYSTEM_CLOCK

__all__ = ("command",)

_PUT: Final = PutOption.SYNCPOINT | PutOption.SET_ALL_CONTEXT | PutOption.FAIL_IF_QUIESCING
_BOQ: Final = "MQFLOW.REPLAY.BOQ"
_FILE: Final = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command("replay")
@click.argument("file", type=_FILE)
@click.option("--to", metavar="QUEUE", help="Put them here, with every field they had.")
@click.option("--app", "target", metavar="MODULE:APP", help="Give them to the application's handlers, in memory, one by one.")
@click.option("--define", type=_FILE, help="With --app: MQSC commands first, for queues that the handlers need.")
@click.option("--redacted", "allows_redacted", is_flag=True, help="Put redacted messages too.")
@url_option
def command(
    file: Path,
    to: str | None,
    target: str | None,
    define: Path | None,
    url: str | None,
    allows_redacted: bool,  # noqa: FBT001 - click passes options by name
) -> None:
    """Put the messages that `mqflow capture` wrote to FILE, or give them to a handler.

    With --app nothing of the outside is touched: the queues are in memory, and a message that fails is delivered once and then
    out of the way. breakpoint() in the handler stops there, so `python -m pdb -m mqflow.cli replay ...` does too.
    """
    if (to is None) == (target is None):
        raise click.UsageError("Give either --to QUEUE or --app MODULE:APP.")
    captures = list(read_captures(file))
    if not captures:
        note(f"There is no message in {safe(str(file))}.")
        sys.exit(EXIT_NOTHING)
    if to is None:
        failed = _to_handlers(application(target or ""), captures, define)
        note(f"{len(captures) - failed:,} of {counted(len(captures), 'messages')} handled, {failed:,} failed.")
        sys.exit(EXIT_FAILED if failed else 0)
    hidden = sum(bool(captured.redacted) for captured in captures)
    if hidden and not allows_redacted:
        raise click.UsageError(f"Redacted: {hidden} of these messages. No message like that ever was; --redacted puts them.")
    with connected(url) as connection:
        _put(connection, to, captures)
    note(f"{counted(len(captures), 'messages')} put on {safe(to)}.")


def _put(connection: Connection, queue: str, captures: list[Captured]) -> None:
    """Put them in one unit of work: all or none."""
    handle = open_to_put(connection, queue, OpenOption.OUTPUT | OpenOption.SET_ALL_CONTEXT | OpenOption.FAIL_IF_QUIESCING)
    for captured in captures:
        connection.put(handle, captured.descriptor, captured.data, _PUT)
    connection.commit()


def _to_handlers(app: App, captures: list[Captured], define: Path | None) -> int:
    """Return how many messages were not handled."""
    told = _Told()
    app.hooks.append(told)
    with EmbeddedQueueManager("QM1", clock=SYSTEM_CLOCK) as queue_manager:
        for attributes in _queues(app):
            queue_manager.administration.define(attributes)
        if define is not None:
            mqsc.run(read_text(define), queue_manager.administration)
        listening = {listener.queue for listener in app.listeners}

        async def main() -> None:
            async with app.running(queue_manager):
                connection = queue_manager.connect()
                for captured in captures:
                    queue = captured.queue if captured.queue in listening else app.listeners[0].queue
                    told.await_one()
                    click.echo(f"{captured.descriptor.message_id.hex()}  {safe(captured.queue)}")
                    _put(connection, queue, [captured])
                    await told.over.wait()

        anyio.run(main)
    return told.failed


def _queues(app: App) -> list[QueueAttributes]:
    """Return the queues that the listeners need: one failure, and a message is out of the way."""
    if not app.listeners:
        raise click.UsageError("The application has no listener, so nothing would handle a message.")
    own = [QueueAttributes(name=listener.queue, backout_threshold=1, backout_requeue_queue=_BOQ) for listener in app.listeners]
    return [QueueAttributes(name=_BOQ), *own]


class _Told:
    """The hook that says what became of each message, and when that is known."""

    #: What is decided about it and where it goes is of this queue manager in memory, and says nothing of the real one.
    wants: Final = (Disposed, Settled)

    def __init__(self) -> None:
        self.failed = 0
        self.over = anyio.Event()

    def await_one(self) -> None:
        """Wait for the next message from now on."""
        self.over = anyio.Event()

    def __call__(self, event: Event) -> None:
        match event:
            case Settled(settlement=Settlement.COMMIT, outcome=Completed()):
                self.over.set()
            case Disposed():
                self.failed += 1
                self.over.set()
                return
            case Settled():
                pass
            case _:
                return
        for line in sentences(event):
            click.echo(f"    {safe(line)}")
