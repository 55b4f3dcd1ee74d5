"""`mqflow explain`: prints the settings that each listener of an application has, with the source of each setting."""

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import click
import msgspec
from msgspec import Struct, structs

from mqflow.app.application import App
from mqflow.app.channels.location import OpenQueueManager, locate, reach_queue_manager
from mqflow.app.config.settings import ListenerSettings, Settings, mistyped_listeners, mistyped_queue_managers, shown_key
from mqflow.app.errors import ConfigurationError, shown_url
from mqflow.app.handlers.listener_declaration import Listener
from mqflow.cli.applications.application_loader import load_application
from mqflow.cli.applications.outputs import outputs
from mqflow.cli.connection_options import is_missing
from mqflow.cli.option_types import json_option, url_option
from mqflow.cli.text.terminal import note, safe, show_table
from mqflow.embedded.state.topic_tree import TopicTree
from mqflow.many_verbs import inquire_base_queue
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import MQIError
from mqflow.policy.poison import backout
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, STAGING_QUEUE
from mqflow.runtime.listener.subscriber import TopicSubscription
from mqflow.verbs import Connection

__all__ = ("command",)

_NOT_SET: Final = "not set"
_PERSISTENCE: Final = {True: "persistent", False: "not persistent", None: "unknown"}


class _Row(Struct, frozen=True):
    """One setting: its name, its value and its source."""

    name: str
    value: str
    source: str


@click.command("explain")
@click.argument("application", metavar="MODULE:APP")
@click.option("--config", "configuration", is_flag=True, help="Show every setting and its source instead.")
@json_option
@url_option
def command(application: str, *, configuration: bool, as_json: bool, url: str | None) -> None:
    """Show the effective values of each listener of MODULE:APP, and where each was set: queue, settings or source.

    A default of the source code counts as source. The command inquires BOTHRESH and BOQNAME of each queue, and DEFPSIST of the
    queues of publishers with persistent=None. It prints a warning if an inquiry fails or a value looks wrong, and for each
    publisher of non-persistent results.
    """
    app = load_application(application, url=url)
    settings = app.settings or Settings()
    for warning in settings.warnings:
        note(f"warning: {safe(warning)}")
    if configuration:
        _show("settings", list(_settings(settings)), as_json=as_json)
        return
    names = app.with_settings(settings)
    parts = {f"{name}:" if name else "": part for name, part in names.items()}
    known = [prefix + name for prefix, (each, _) in parts.items() for of in each.listeners for name in (of.name, of.queue)]
    for sentence in (*mistyped_listeners(settings, known), *mistyped_queue_managers(settings, filter(None, names))):
        note(f"warning: {safe(sentence)}")
    for prefix, (each, own) in parts.items():
        _explain_application(each, own, prefix, as_json=as_json)


def _explain_application(app: App, settings: Settings, prefix: str, *, as_json: bool) -> None:
    """Show one application and its listeners. `prefix` is put before the names of an included application, as in `archive:`."""
    url = settings.url_over(app.url)
    location = locate(url)
    embedded = location.kind in {"embedded", "memory", "served"}
    rows = [
        _Row("url", shown_url(url), settings.sources.get("url", "source" if app.url else "default")),
        *_delays(app, settings, embedded=embedded),
        *_dead_letters(app),
        *(_Row(f"schedule {each.name}", f"{each.rule.text}, on {each.queue}", "source") for each in app.schedules),
    ]
    _show(f"application {prefix.removesuffix(':')}".strip(), rows, as_json=as_json)
    overrides = {each: settings.listener(prefix + each.name, prefix + each.queue) for each in app.listeners}
    if is_missing(location):
        note(f"warning: there is no queue manager at {location.path} yet, so no queue can be inquired.")
        for listener, own in overrides.items():
            _show(prefix + listener.queue, list(_options(listener, own)), as_json=as_json)
        return
    with closing(reach_queue_manager(url, settings=settings)) as queue_manager:
        connection = queue_manager.connect(application_name="mqflow")
        for listener, own in overrides.items():
            _explain(queue_manager, connection, listener, own, prefix + listener.queue, as_json=as_json)
        connection.disconnect()


def _delays(app: App, settings: Settings, *, embedded: bool) -> Iterator[_Row]:
    """Yield rows about delayed messages: their staging queue, the application that delivers them, and the retries that wait."""
    usual = EMBEDDED_STAGING_QUEUE if embedded else STAGING_QUEUE
    source = settings.sources.get("delay_queue", "default") if settings.delay_queue else "default"
    yield _Row("delayed messages wait on", settings.delay_queue or usual, source)
    own = app.delay_processors
    processor = f"this application, on {own} connections" if own else "the process that has the queue manager open"
    processor = processor if own or embedded else "another application"
    yield _Row("and are delivered by", processor, "source" if own else "default")
    where = f", on {usual}" if embedded and settings.delay_queue else ""
    retries = f"more than {settings.retry_in_worker_s:g} s{where}" if own or embedded else "none: workers wait"
    yield _Row("retries that wait there", retries, settings.sources.get("retry_in_worker_s", "default"))


def _dead_letters(app: App) -> Iterator[_Row]:
    """Yield a row for each dead-letter queue that the application handles: its rules, RETRYINT, and when its handler ends."""
    for declared in app.dead_letter_handlers:
        count = len(declared.rules().matchers)
        match declared.control.wait_s:
            case None:
                end = "for ever"
            case 0:
                end = "until the queue has no work left"
            case wait_s:
                end = f"until {wait_s} s without work"
        how = f"{count} rule{'' if count == 1 else 's'}, every {declared.control.retry_interval_s} s, {end}"
        yield _Row(f"dead letters on {declared.queue or 'DEADQ'}", how, "source")


def _explain(
    queue_manager: OpenQueueManager,
    connection: Connection,
    listener: Listener,
    overrides: ListenerSettings,
    title: str,
    *,
    as_json: bool,
) -> None:
    rows, found = list(_options(listener, overrides)), list(outputs(connection, listener))
    rows += [_Row(f"results on {each.queue}", _PERSISTENCE[each.persistent], each.source) for each in found]
    warnings = [each.warning for each in found if each.warning]
    try:
        if listener.subscription is None:
            attributes = inquire_base_queue(connection, listener.queue)
        else:
            attributes = _model(queue_manager, listener.subscription)
            rows.append(_Row("model of the managed queue", attributes.name, "the topic"))
    except (MQIError, ConfigurationError) as error:
        warnings.append(str(error))
    else:
        poison, about_poison = _poison_handling(connection, listener, overrides, attributes)
        rows += poison
        warnings += about_poison
    _show(title, rows, as_json=as_json)
    for warning in warnings:
        note(f"warning: {safe(warning)}")


def _model(queue_manager: OpenQueueManager, subscription: TopicSubscription) -> QueueAttributes:
    """Return the model queue for the managed queue of a subscription: MDURMDL or MNDURMDL of the nearest topic object.

    Raises `ConfigurationError` if the queue manager has no administration, because the MQI cannot inquire topics.
    """
    administration = queue_manager.administration
    topic = TopicTree({found.name: found for found in administration.publishing.topics()}).effective(subscription.topic)
    name = topic.durable_model if subscription.durable else topic.nondurable_model
    found = administration.queue(name)
    if found is None:
        raise ConfigurationError(
            f"{subscription.topic}: topic object {topic.name} names the model queue {name}, which does not exist."
        )
    return found


def _poison_handling(
    connection: Connection, listener: Listener, overrides: ListenerSettings, queue: QueueAttributes
) -> tuple[list[_Row], list[str]]:
    """Return the rows about poison messages of the listener, and warnings about values that are probably wrong."""
    declared = listener.options.backout
    threshold = overrides.backout_threshold if overrides.backout_threshold is not None else declared.threshold
    name = overrides.backout_requeue_queue if overrides.backout_requeue_queue is not None else declared.queue
    effective, threshold_source, queue_source = backout.effective(
        queue, threshold=None if threshold == "queue" else threshold, queue=None if name == "queue" else name
    )
    pace = declared.pace
    rows = [
        _Row("backout threshold", str(effective.backout_threshold or "0 (never)"), threshold_source),
        _Row("backout requeue queue", effective.backout_requeue_queue or "none", queue_source),
        _Row("behaviour", declared.behaviour.value, "source"),
        _Row("undecodable", declared.undecodable, "source"),
        _Row("pause before redelivery", f"{pace.first_s:g} s, then times {pace.factor:g} up to {pace.max_s:g} s", "source"),
    ]
    warnings = []
    if not effective.backout_threshold:
        warnings.append(f"{queue.name} has no backout threshold: a message that always fails is redelivered without end.")
    elif not effective.backout_requeue_queue:
        warnings.append(
            f"{queue.name} has no backout requeue queue: poison messages go to the dead-letter queue, if one is defined."
        )
    elif problem := _problem_of(connection, queue.name, effective.backout_requeue_queue):
        warnings.append(problem)
    return rows, warnings


def _problem_of(connection: Connection, queue: str, requeue: str) -> str:
    """Return why the backout requeue queue cannot be used, or why its messages return to `queue`; empty if all is well."""
    path, name = [queue], requeue
    while name and name not in path:
        path.append(name)
        try:
            name = inquire_base_queue(connection, name).backout_requeue_queue
        except MQIError as error:
            return f"The backout requeue queue of {queue} cannot be used. {error}" if path == [queue, requeue] else ""
    if name != queue:
        return ""
    return (
        f"BOQNAME makes a circle: {' -> '.join((*path, queue))}. If each queue has a listener, poison messages never leave it."
    )


def _options(listener: Listener, overrides: ListenerSettings) -> Iterator[_Row]:
    if (topic := listener.subscription) is not None:
        yield _Row("subscription", f"durable, {topic.durable}" if topic.durable else "not durable", "source")
        yield _Row("wildcards", "characters" if topic.character_wildcards else "levels", "source")
    if selector := listener.selection if topic is None else topic.selector:
        yield _Row("selector", selector, "source")
    yield _Row("handlers", ", ".join(handler.name for handler in listener.handlers), "source")
    declared = listener.options
    for name, override, value in (
        ("concurrency", overrides.concurrency, declared.concurrency),
        ("unit_of_work", overrides.unit_of_work, declared.unit_of_work),
        ("time_limit_s", overrides.time_limit_s, declared.time_limit_s),
    ):
        effective = value if override is None else override
        yield _Row(name, "none" if effective is None else str(effective), "source" if override is None else "settings")
    if declared.groups:
        yield _Row("groups", f"a message group is a unit of work, of at most {declared.group_messages_max} messages", "source")
    if (limit := declared.rate_limit) is not None:
        yield _Row("rate limit", f"{limit.messages} messages in {limit.per_s:g} s, at most {limit.burst} at once", "source")
    if (breaker := declared.breaker) is not None:
        yield _Row("circuit breaker", f"opens after {breaker.failures} failures, for {breaker.open_s:g} s", "source")


def _settings(settings: Settings, above: tuple[str, ...] = (), record: Struct | None = None) -> Iterator[_Row]:
    """Yield a row for every setting, with its key. A group of settings gives a row for each of them."""
    for name, value in structs.asdict(record or settings).items():
        key = (*above, name)
        if name in {"sources", "warnings"}:
            continue
        if isinstance(value, Struct):
            yield from _settings(settings, key, value)
        elif name in {"listeners", "queue_managers"}:
            for each, overrides in value.items():
                yield from (row for row in _settings(settings, (*key, each), overrides) if row.value != _NOT_SET)
        else:
            shown = shown_key(key)
            text = shown_url(value) if name == "url" else _shown(value)
            yield _Row(shown, text or _NOT_SET, settings.sources.get(shown, "default"))


def _shown(value: object) -> str:
    """Return the value in the syntax of mqflow.toml. None and an empty text are shown as "not set"."""
    if value is None or value == "":
        return _NOT_SET
    return str(value).lower() if isinstance(value, bool) else str(value)


def _show(title: str, rows: list[_Row], *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode({"of": title, "rows": rows}))
        return
    show_table((title, "value", "set by"), [(row.name, row.value, row.source) for row in rows])
    click.echo()
