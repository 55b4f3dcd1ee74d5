"""`mqflow mqsc MODULE:APP`: prints an MQSC script with the objects and authorities that an application needs.

The script has DEFINE and SET AUTHREC commands for `mqflow mqsc` and runmqsc. This file connects only if `--url` is given.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, TypedDict, TypeVar, Unpack

import click
from msgspec import Struct

from mqflow.app.channels.location import locate
from mqflow.app.config.settings import load
from mqflow.app.errors import ConfigurationError
from mqflow.app.requirements import Known, Requirements, Use, requirements
from mqflow.cli.applications.application_loader import load_application
from mqflow.cli.connection_options import opened, stager_for
from mqflow.embedded.mqsc.values import quoted
from mqflow.embedded.state.topic_tree import TopicTree
from mqflow.embedded.state.users import login
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.topic import BASE_TOPIC
from mqflow.mqi.authorities import AuthorityKind

__all__ = ("RequirementOptions", "requirement_options", "requirements_script")

F = TypeVar("F", bound=Callable[..., Any])  # Any: a click command has any parameters

_HEAD: Final = (
    "* {application} needs these definitions and authorities as {grantee}, and no others. An administrator runs this script:",
    "*    mqflow mqsc FILE      or      runmqsc {queue_manager} < FILE",
)
_NOT_DECLARED: Final = (
    "* The declarations do not show these needs; options name them: the queues of app.put and ctx.put (--put), the topics",
    "* of app.publish and ctx.publish (--publish), the queues of app.consumer (--get), app.request (--request), and",
    "* delays (--delay). Replies and exception reports need PUT on the queue that the message names. A DLQ handler needs PUT",
    "* and PASSALL on the queues to which it returns messages. app.unsubscribe needs RESUME on the topic. With PUT and",
    "* PASSALL on the queue of a listener, its messages wait on the staging queue for a long Retry. A delay processor needs",
    "* PASSALL on each target.",
)
_EVERY_TOPIC: Final = (
    f"* {BASE_TOPIC} is above every topic, so this command grants access to all topics. To grant less, first define topic",
    "* objects for the application, DEFINE TOPIC('...') TOPICSTR('...'), and run this command with --url.",
)
_NO_DEAD_LETTER_QUEUE: Final = (
    "* The dead-letter queue is unknown, so this script grants nothing on it: use --dead-letter-queue NAME, or --url."
)


class RequirementOptions(TypedDict):
    """The options of the command, by the names of their parameters."""

    user: str | None
    group: str | None
    get: tuple[str, ...]
    put: tuple[str, ...]
    publish: tuple[str, ...]
    request: bool
    delay: bool
    dead_letter_queue: str | None
    included: str | None


_OPTIONS = (
    click.option("--user", metavar="NAME", help="MODULE:APP: the user of the application; default: the setting user, or you."),
    click.option("--group", metavar="NAME", help="MODULE:APP: the group to authorize, instead of a user."),
    click.option("--get", multiple=True, metavar="QUEUE", help="MODULE:APP: a queue of app.consumer."),
    click.option("--put", multiple=True, metavar="QUEUE", help="MODULE:APP: a queue of app.put or ctx.put."),
    click.option("--publish", multiple=True, metavar="TOPIC", help="MODULE:APP: a topic of app.publish or ctx.publish."),
    click.option("--request", is_flag=True, help="MODULE:APP: the application calls app.request."),
    click.option("--delay", is_flag=True, help="MODULE:APP: the puts to these queues have a delay."),
    click.option("--dead-letter-queue", metavar="QUEUE", help="MODULE:APP: DEADQ of the queue manager."),
    click.option("--included", metavar="NAME", help="MODULE:APP: for the queue manager of this included application."),
)


class _Grantee(Struct, frozen=True):
    """The user or the group that the authorities are granted to."""

    name: str
    group: bool = False

    def __str__(self) -> str:
        return f"{'GROUP' if self.group else 'PRINCIPAL'}({quoted(self.name)})"


class _Header(Struct, frozen=True):
    """The names that the first lines of the script contain."""

    application: str
    grantee: _Grantee
    queue_manager: str


def requirement_options(function: F) -> F:
    """Add the options of `RequirementOptions` to the command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def requirements_script(application: str, url: str | None, **options: Unpack[RequirementOptions]) -> Iterator[str]:
    """Yield the lines of the script for ``module:app``. Raises `ConfigurationError` if there is no such application."""
    if options["user"] and options["group"]:
        raise click.UsageError("--user and --group exclude each other: an authority record is for a user or for a group.")
    app = load_application(application, url=url)
    parts = app.with_settings(app.settings or load({"url": url}), needs_url=False)
    name = options["included"] or ""
    if name not in parts:
        listed = ", ".join(filter(None, parts)) or "none"
        raise ConfigurationError(
            f"--included {name}: {application} includes no application of this name. It includes: {listed}."
        )
    part, settings = parts[name]
    app_url = settings.url_over(part.url) if url is None else url
    use = Use(
        consumed=options["get"],
        put=options["put"],
        published=options["publish"],
        requests=options["request"],
        delays=options["delay"],
        staging_queue=stager_for(app_url).queue,
    )
    grantee = _Grantee(options["group"] or options["user"] or settings.user or login(), group=bool(options["group"]))
    header = _Header(f"{application}{f' --included {name}' if name else ''}", grantee, locate(app_url).queue_manager or "QM")
    needs = partial(requirements, part, use, settings=settings, prefix=f"{name}:" if name else "")
    if url is None:
        yield from _script(needs, Known(dead_letter_queue=options["dead_letter_queue"] or ""), header)
    else:
        with opened(url) as queue_manager:
            administration = queue_manager.administration
            dead_letter_queue = options["dead_letter_queue"] or administration.queue_manager.dead_letter_queue
            topics = TopicTree({topic.name: topic for topic in administration.publishing.topics()})
            known = Known(queue=administration.queue, topic=topics.effective, dead_letter_queue=dead_letter_queue)
            yield from _script(needs, known, header)
    for other in parts:
        if other not in {"", name}:
            yield f"* {other} has another queue manager, and a script of its own: mqflow mqsc {application} --included {other}"


def _script(needs: Callable[[Known], Requirements], known: Known, header: _Header) -> Iterator[str]:
    """Yield the lines of the script. Each queue is defined before an authority for it is granted."""
    needed = needs(known)
    for line in _HEAD:
        yield line.format(application=header.application, grantee=header.grantee, queue_manager=header.queue_manager)
    for queue in needed.queues:
        yield _definition(queue)
    for (kind, name), authorities in needed.authorities.items():
        profile = "" if kind is AuthorityKind.QMGR else f"PROFILE({quoted(name)}) "
        yield f"SET AUTHREC {profile}OBJTYPE({kind}) {header.grantee} AUTHADD({','.join(sorted(authorities))})"
    if (AuthorityKind.TOPIC, BASE_TOPIC) in needed.authorities:
        yield from _EVERY_TOPIC
    if not known.dead_letter_queue:
        yield _NO_DEAD_LETTER_QUEUE
    yield from _NOT_DECLARED


def _definition(queue: QueueAttributes) -> str:
    threshold = f" BOTHRESH({queue.backout_threshold})" if queue.backout_threshold else ""
    backout_queue = f" BOQNAME({quoted(queue.backout_requeue_queue)})" if queue.backout_requeue_queue else ""
    in_order = " MSGDLVSQ(FIFO)" if queue.message_delivery_sequence else ""
    return f"DEFINE QLOCAL({quoted(queue.name)}){threshold}{backout_queue}{in_order}"
