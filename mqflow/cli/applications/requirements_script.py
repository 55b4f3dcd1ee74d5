"""The options by which `mqflow mqsc module:app` is told what no declaration says, and the script that comes of it."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, TypedDict, TypeVar, Unpack

import click

from mqflow.app.application import App
from mqflow.app.channels.locate import locate, reach_queue_manager
from mqflow.app.config.settings import load
from mqflow.app.requirements import Known, Use, requirements
from mqflow.cli.applications.application_script import Whom, script_of
from mqflow.cli.applications.load import application
from mqflow.cli.connection_options import stager_for
from mqflow.embedded.state.topic_tree import TopicTree
from mqflow.embedded.state.users import login

__all__ = ("Needs", "needs_of", "needs_options")

F = TypeVar("F", bound=Callable[..., Any])


class Needs(TypedDict):
    """The options."""

    user: str | None
    group: str | None
    get: tuple[str, ...]
    put: tuple[str, ...]
    publish: tuple[str, ...]
    request: bool
    delay: bool
    dead_letter_queue: str | None


_OPTIONS = (
    click.option("--user", metavar="NAME", help="MODULE:APP: as whom it runs; the setting user, or you."),
    click.option("--group", metavar="NAME", help="MODULE:APP: the group to allow, instead of a user."),
    click.option("--get", multiple=True, metavar="QUEUE", help="MODULE:APP: a queue of app.consumer."),
    click.option("--put", multiple=True, metavar="QUEUE", help="MODULE:APP: a queue of app.put or ctx.put."),
    click.option("--publish", multiple=True, metavar="TOPIC", help="MODULE:APP: a topic of app.publish or ctx.publish."),
    click.option("--request", is_flag=True, help="MODULE:APP: it uses app.request."),
    click.option("--delay", is_flag=True, help="MODULE:APP: what it puts to those queues has a delay."),
    click.option("--dead-letter-queue", metavar="QUEUE", help="MODULE:APP: DEADQ of its queue manager."),
)


def needs_options(function: F) -> F:
    """Give the command the options of `Needs`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def needs_of(target: str, url: str | None, **needs: Unpack[Needs]) -> Iterator[str]:
    """Yield the lines of the script for ``module:app``. Raises `ConfigurationError` where there is none."""
    if needs["user"] and needs["group"]:
        raise click.UsageError("--user and --group exclude each other: a record is of one of them.")
    app = application(target, url=url)
    settings = app.settings or load({"url": url})
    where = settings.url_over(app.url)
    use = Use(
        consumed=needs["get"],
        put=needs["put"],
        published=needs["publish"],
        requests=needs["request"],
        delays=needs["delay"],
        staging_queue=stager_for(where).queue,
    )
    whom = Whom(needs["group"] or needs["user"] or settings.user or login(), group=bool(needs["group"]))
    name = locate(where).queue_manager or "QM"
    if url is None:
        yield from _script(app, use, Known(dead_letter_queue=needs["dead_letter_queue"] or ""), whom, target, name)
        return
    with closing(reach_queue_manager(url)) as queue_manager:
        administration = queue_manager.administration
        dead = needs["dead_letter_queue"] or administration.queue_manager.dead_letter_queue
        topics = TopicTree({topic.name: topic for topic in administration.publishing.topics()})
        known = Known(queue=administration.queue, topic=topics.effective, dead_letter_queue=dead)
        yield from _script(app, use, known, whom, target, name)


def _script(app: App, use: Use, known: Known, whom: Whom, target: str, queue_manager: str) -> Iterator[str]:
    needed = requirements(app, use, known)
    return script_of(needed, whom, target=target, queue_manager=queue_manager, dead_letter_queue=known.dead_letter_queue)
