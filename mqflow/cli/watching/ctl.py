"""`mqflow ctl`: orders of an operator to one listener of a running application."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import msgspec

from mqflow.app.errors import ConfigurationError
from mqflow.cli.option_types import Seconds, WholeLines
from mqflow.cli.text.exit_codes import EXIT_FAILED
from mqflow.cli.text.terminal import counted, note, safe
from mqflow.cli.watching.control import Order
from mqflow.cli.watching.named_applications import one
from mqflow.cli.watching.sockets import Request, ask
from mqflow.cli.watching.status_report import doing_now
from mqflow.policy.health.records import ApplicationStatus, Doing, ListenerStatus, ProcessStatus, WorkerStatus
from mqflow.world import SYSTEM_CLOCK, THREADS

__all__ = ("UnfinishedOrderError", "command", "in_units")

_LOOK_S: Final = 0.2
_SAY_S: Final = 1.0
_ANSWER_S: Final = 30.0
"""The longest wait for an answer in seconds: several worker processes can need some seconds each."""


class UnfinishedOrderError(Exception):
    """The application, or one of its processes, has carried out the order, or may have carried it out."""


class _Orders(WholeLines):
    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that click finds. If the application is missing, raise `UsageError` with the right command."""
        first = ctx.params["application"]
        if first in self.commands and args[0] not in self.commands:
            right = " ".join(("mqflow ctl APP", first, *args))
            raise click.UsageError(f"The application comes first: {right}. `mqflow status` shows its name.", ctx)
        return super().resolve_command(ctx, args)


@click.group("ctl", cls=_Orders)
@click.argument("application", metavar="APP")
@click.pass_context
def command(ctx: click.Context, application: str) -> None:
    """Pause, resume, drain or resize a listener of APP while it runs.

    APP is the name of an application or the number of its process, as `mqflow status` shows it. The effect of a command lasts
    until another command changes it, or until the application ends. The effect also stays if a worker process starts again.
    Only the user of the application can use these commands. The log of the application has a line for each command.
    """
    ctx.obj = application


_listener = click.argument("listener")


@command.command("pause")
@_listener
@click.pass_obj
def pause(application: str, listener: str) -> None:
    """Stop the gets of LISTENER (a name or a queue) immediately. Handlers that run finish, and their units of work commit."""
    _order(application, Order(listener=listener, held=True))
    resume_it = f"mqflow ctl {safe(application)} resume {safe(listener)}"
    click.echo(f"{safe(listener)} of {safe(application)} is paused. `{resume_it}` ends the pause.")


@command.command("resume")
@_listener
@click.pass_obj
def resume(application: str, listener: str) -> None:
    """Let LISTENER get messages again."""
    _order(application, Order(listener=listener, held=False))
    click.echo(f"{safe(listener)} of {safe(application)} gets messages again.")


@command.command("concurrency")
@_listener
@click.argument("number", type=click.IntRange(1))
@click.pass_obj
def concurrency(application: str, listener: str, number: int) -> None:
    """Give LISTENER this number of workers in each process. A worker that must end finishes its unit of work first."""
    status = _order(application, Order(listener=listener, concurrency=number))
    processes = f" in each of {status.expected} processes" if status.expected > 1 else ""
    click.echo(f"{safe(listener)} of {safe(application)} has {counted(number, 'workers')}{processes}.")


@command.command("drain")
@_listener
@click.option("--wait", "wait_s", type=Seconds(0), metavar="SECONDS", default=60.0, show_default=True, help="Give up waiting.")
@click.pass_obj
def drain(application: str, listener: str, wait_s: float) -> None:
    """Pause LISTENER, and wait until its queue is closed.

    The queue is closed after the last unit of work is settled.

    If this takes too long, the listener stays paused, and the exit code is 1.
    """
    path, _ = one(application)
    status = _send(path, Order(listener=listener, held=True))
    now = SYSTEM_CLOCK.monotonic()
    until, say_at = now + wait_s, now
    pause_event = THREADS.event()
    while left := in_units(status, listener):
        now = SYSTEM_CLOCK.monotonic()
        if now >= until:
            note(f"Not drained: {counted(left, 'workers')} of {safe(listener)}{_longest(status, listener)}")
            note("The listener stays paused.")
            raise click.exceptions.Exit(EXIT_FAILED)
        if now >= say_at:
            note(f"Waiting for {counted(left, 'workers')} of {safe(listener)}{_longest(status, listener)}")
            say_at = now + _SAY_S
        pause_event.wait(_LOOK_S)
        status = _send(path, None)
    resume_it = f"mqflow ctl {safe(application)} resume {safe(listener)}"
    click.echo(f"{safe(listener)} of {safe(application)} is drained. `{resume_it}` starts it again.")


def in_units(status: ApplicationStatus, listener: str) -> int:
    """Return the number of the listener's workers that are not paused yet, plus the number of processes that do not answer."""
    return sum(worker.doing is not Doing.PAUSED for worker, _, _ in _workers(status, listener)) + len(status.silent)


def _longest(status: ApplicationStatus, listener: str) -> str:
    """Return in words what the handler does that has run for the longest time, and the line that it has reached."""
    handlers = [each for each in _workers(status, listener) if each[0].doing is Doing.HANDLING]
    if not handlers:
        return " ..."
    worker, of, process = max(handlers, key=lambda each: each[2].taken_at - (each[0].since or 0.0))
    at = f" at {safe(worker.at)}" if worker.at else ""
    return f": {safe(doing_now(worker, of, process))}{at}"


def _workers(status: ApplicationStatus, listener: str) -> Iterator[tuple[WorkerStatus, ListenerStatus, ProcessStatus]]:
    """Yield the workers of the listener with this name or queue."""
    for process in status.processes:
        for each in process.listeners:
            if listener in {each.name, each.queue}:
                yield from ((worker, each, process) for worker in each.workers)


def _order(application: str, order: Order) -> ApplicationStatus:
    path, _ = one(application)
    return _send(path, order)


def _send(path: Path, order: Order | None) -> ApplicationStatus:
    try:
        answer = ask(path, Request(order), wait_s=_ANSWER_S)
    except (OSError, msgspec.MsgspecError) as error:
        asked = (
            "The order may have been carried out."
            if order is not None
            else "If the application still runs, the listener stays paused."
        )
        raise UnfinishedOrderError(
            f"{path.stem} gave no answer on {path}: {error}. {asked} `mqflow status` shows it."
        ) from error
    if answer.status is None:
        did_nothing = order is not None and not answer.is_partly_done
        raise (ConfigurationError if did_nothing else UnfinishedOrderError)(answer.refused or "The application gave no answer.")
    return answer.status
