"""`mqflow explain`: what applies to each listener of an application, and where it was set."""

from collections.abc import Iterator
from typing import Any, Final

import click
import msgspec
from msgspec import Struct, structs

from mqflow.app.application import App
from mqflow.app.channels.locate import OpenQueueManager, locate
from mqflow.app.config.settings import Settings, mistyped_listeners, shown_key
from mqflow.app.errors import ConfigurationError
from mqflow.app.handlers.listener_declaration import Listener
from mqflow.cli.applications.load import application
from mqflow.cli.connection_options import json_option, opened, url_option
from mqflow.cli.text.terminal import note, safe, show_table
from mqflow.embedded.state.topic_tree import TopicTree
from mqflow.many_verbs import inquire_base_queue
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import MQIError
from mqflow.policy.poison import backout
from mqflow.policy.poison.redelivery_delay import Pace
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, STAGING_QUEUE
from mqflow.runtime.listener.subscriber import TopicSubscription
from mqflow.verbs import Connection

__all__ = ("command",)

_NOT_SET: Final = "not set"


class _Row(Struct, frozen=True):
    """One thing that applies, and where it was set."""

    name: str
    value: str
    source: str


@click.command("explain")
@click.argument("target", metavar="MODULE:APP")
@click.option("--config", "configuration", is_flag=True, help="Show every setting instead, and where it came from.")
@json_option
@url_option
def command(target: str, configuration: bool, as_json: bool, url: str | None) -> None:  # noqa: FBT001 - click passes options by name
    """Say what applies to each listener of MODULE:APP once the queue, the source and the settings have been asked.

    The queue manager is asked for BOTHRESH and BOQNAME; what cannot be asked, or looks wrong, is a warning.
    """
    app = application(target, url=url)
    settings = app.settings or Settings()
    for warning in settings.warnings:
        note(f"warning: {safe(warning)}")
    if configuration:
        _show("settings", list(_settings(settings)), as_json=as_json)
        return
    for sentence in mistyped_listeners(settings, [name for each in app.listeners for name in (each.name, each.queue)]):
        note(f"warning: {safe(sentence)}")
    location = locate(settings.url_over(app.url))
    embedded = location.kind in {"embedded", "memory", "served"}
    rows = [
        _Row("url", settings.url_over(app.url), _url_source(app, settings)),
        *_delays(app, settings, embedded=embedded),
        *_dead_letters(app),
    ]
    _show("application", rows, as_json=as_json)
    if location.path is not None and not location.path.exists():
        note(f"warning: there is no queue manager at {location.path} yet, so no queue can be asked.")
        for listener in app.listeners:
            _show(listener.queue, list(_options(listener, settings)), as_json=as_json)
        return
    with opened(settings.url_over(app.url)) as queue_manager:
        connection = queue_manager.connect(application_name="mqflow")
        for listener in app.listeners:
            _explain(queue_manager, connection, listener, settings, as_json=as_json)
        connection.disconnect()


def _delays(app: App, settings: Settings, *, embedded: bool) -> Iterator[_Row]:
    """Yield where delayed messages wait, who delivers them, and which retries wait there too."""
    usual = EMBEDDED_STAGING_QUEUE if embedded else STAGING_QUEUE
    said = settings.sources.get("delay_queue", "default") if settings.delay_queue else "default"
    yield _Row("delayed messages wait on", settings.delay_queue or usual, said)
    own = app.delay_processors
    moved = f"this application, on {own} connections" if own else "whoever has the queue manager open"
    yield _Row("and are delivered by", moved if own or embedded else "another application", "source" if own else "default")
    longest = f"more than {settings.retry_in_worker_s:g} s" if own or embedded else "none: workers wait"
    yield _Row("retries that wait there", longest, settings.sources.get("retry_in_worker_s", "default"))


def _dead_letters(app: App) -> Iterator[_Row]:
    """Yield which dead-letter queues the application handles, how, and for how long."""
    for declared in app.dead_letter_handlers:
        count = len(declared.rules().matchers)
        match declared.control.wait_s:
            case None:
                end = "for ever"
            case 0:
                end = "until there is nothing to do"
            case wait_s:
                end = f"until there was nothing to do for {wait_s} s"
        by = f"{count} rule{'' if count == 1 else 's'}, every {declared.control.retry_interval_s} s, {end}"
        yield _Row(f"dead letters on {declared.queue or 'DEADQ'}", by, "source")


def _explain(
    queue_manager: OpenQueueManager, connection: Connection, listener: Listener, settings: Settings, *, as_json: bool
) -> None:
    rows = list(_options(listener, settings))
    try:
        if listener.subscription is None:
            attributes = inquire_base_queue(connection, listener.queue)
        else:
            attributes = _model(queue_manager, listener.subscription)
            rows.append(_Row("model of the managed queue", attributes.name, "the topic"))
    except (MQIError, ConfigurationError) as error:
        _show(listener.queue, rows, as_json=as_json)
        note(f"warning: {error}")
        return
    poison, warnings = _poison_handling(listener, settings, attributes)
    _show(listener.queue, [*rows, *poison], as_json=as_json)
    for warning in warnings:
        note(f"warning: {safe(warning)}")


def _model(queue_manager: OpenQueueManager, wanted: TopicSubscription) -> QueueAttributes:
    """Return the model queue that the managed queue is made from: MDURMDL or MNDURMDL of the nearest topic object.

    Raises `ConfigurationError` where the queue manager cannot be asked: there is no call of the MQI for topics.
    """
    administration = queue_manager.administration
    topic = TopicTree({found.name: found for found in administration.publishing.topics()}).effective(wanted.topic)
    name = topic.durable_model if wanted.durable else topic.nondurable_model
    found = administration.queue(name)
    if found is None:
        raise ConfigurationError(f"{wanted.topic}: topic object {topic.name} names the model queue {name}, which is not there.")
    return found


def _poison_handling(listener: Listener, settings: Settings, queue: QueueAttributes) -> tuple[list[_Row], list[str]]:
    """Return what decides about poison messages of the listener, and what looks wrong with it."""
    said, declared = settings.listener(listener.name, listener.queue), listener.options.backout
    threshold = said.backout_threshold if said.backout_threshold is not None else declared.threshold
    name = said.backout_requeue_queue if said.backout_requeue_queue is not None else declared.queue
    effective, threshold_source, queue_source = backout.effective(
        queue,
        threshold=None if threshold == "queue" else threshold,
        queue=None if name == "queue" else name,
    )
    rows = [
        _Row("backout threshold", str(effective.backout_threshold or "0 (never)"), threshold_source),
        _Row("backout requeue queue", effective.backout_requeue_queue or "none", queue_source),
        _Row("behaviour", declared.behaviour.value, "source"),
        _Row("undecodable", declared.undecodable, "source"),
        _Row("pause before redelivery", _pace(declared.pace), "source"),
    ]
    warnings = []
    if not effective.backout_threshold:
        warnings.append(f"{queue.name} has no backout threshold: a message that always fails is redelivered for ever.")
    elif not effective.backout_requeue_queue:
        warnings.append(
            f"{queue.name} has no backout requeue queue: poison messages go to the dead-letter queue, if there is one."
        )
    return rows, warnings


def _pace(pace: Pace) -> str:
    return f"{pace.first_s:g} s, then times {pace.factor:g} up to {pace.max_s:g} s"


def _options(listener: Listener, settings: Settings) -> Iterator[_Row]:
    said = settings.listener(listener.name, listener.queue)
    if (wanted := listener.subscription) is not None:
        yield _Row("subscription", f"durable, {wanted.durable}" if wanted.durable else "not durable", "source")
        yield _Row("wildcards", "characters" if wanted.character_wildcards else "levels", "source")
    if selector := listener.selection if wanted is None else wanted.selector:
        yield _Row("selector", selector, "source")
    yield _Row("handlers", ", ".join(handler.name for handler in listener.handlers), "source")
    for name in ("concurrency", "unit_of_work", "time_limit_s"):
        outside = getattr(said, name)
        value = getattr(listener.options, name) if outside is None else outside
        yield _Row(name, "none" if value is None else str(value), "source" if outside is None else "settings")


def _settings(settings: Settings, above: tuple[str, ...] = (), record: Struct | None = None) -> Iterator[_Row]:
    """Yield every setting by its key, down into the groups."""
    for name, value in structs.asdict(record or settings).items():
        key = (*above, name)
        if name in {"sources", "warnings"}:
            continue
        if isinstance(value, Struct):
            yield from _settings(settings, key, value)
        elif name == "listeners":
            for listener, said in value.items():
                yield from (row for row in _settings(settings, (*key, listener), said) if row.value != _NOT_SET)
        else:
            shown = shown_key(key)
            yield _Row(shown, _shown(value), settings.sources.get(shown, "default"))


def _shown(value: object) -> str:
    """Return the value as mqflow.toml would have it; one word for all that says nothing."""
    if value is None or value == "":
        return _NOT_SET
    return str(value).lower() if isinstance(value, bool) else str(value)


def _url_source(app: App, settings: Settings) -> str:
    return settings.sources.get("url", "source" if app.url else "default")


def _show(title: str, rows: list[_Row], *, as_json: bool) -> None:
    if as_json:
        facts: dict[str, Any] = {"of": title, "rows": rows}
        click.echo(msgspec.json.encode(facts))
        return
    show_table((title, "value", "set by"), [(row.name, row.value, row.source) for row in rows])
    click.echo()
