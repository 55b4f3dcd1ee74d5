"""Included applications: mistakes that are refused, and which queue manager each part of the program names."""

from collections.abc import Callable
from functools import partial

import anyio
import pytest

from mqflow import App, ConfigurationError, Settings
from mqflow.app.config.settings import ListenerSettings, QueueManagerSettings
from mqflow.cli.processes.workers import WorkersOptions, run_workers
from mqflow.cli.watching.control import ProcessSource
from mqflow.cli.watching.counts import EventCounts, counts_of_all
from mqflow.cli.watching.figures import figures, figures_of_all
from mqflow.cli.watching.status_report import worker_rows
from mqflow.events import Event, ReadinessChanged, Warned
from mqflow.policy.health.judge import judge
from mqflow.runtime.connection.readiness import Readiness
from mqflow.runtime.hooks import Broadcast
from mqflow.testing.kit import QueueManagerKit

ARCHIVE = "embedded:./archive?qmgr=QM2"


def program(settings: Settings | None = None) -> tuple[App, App]:
    app, archive = App("embedded:./orders?qmgr=QM1", name="orders", settings=settings), App(ARCHIVE, name="archive")

    async def book(body: str) -> None:
        """Take a message."""

    for each in (app, archive):
        each.listener("IN")(book)
    app.include_app(archive)
    return app, archive


def has_urls(of_main: Settings, *names: str, settings: Settings | None = None) -> dict[str, str]:
    app = App(name="orders")
    for name in names:
        app.include_app(App(name=name, settings=settings))
    return app.urls(of_main)


def options(url: str) -> WorkersOptions:
    return WorkersOptions(
        application="a:b", name="orders", count=2, url=url, others={"archive": ARCHIVE}, backend="asyncio", http="", more=()
    )


@pytest.mark.parametrize(
    ("act", "problem"),
    [
        (lambda app, _: app.include_app("archive"), "takes an App"),
        (lambda app, _: app.include_app(App()), "letters, digits and underscores"),
        (lambda app, _: app.include_app(App(name="a:b")), "letters, digits and underscores"),
        (lambda app, _: app.include_app(App(name="ARCHIVE")), "has the name ARCHIVE already"),
        (lambda app, _: app.include_app(app), "one application includes all others"),
        (lambda app, _: App(name="all").include_app(app), "one application includes all others"),
        (lambda _, archive: archive.include_app(App(name="more")), "one application includes all others"),
        (lambda app, _: app.listen_only(["archive:IM"]), "Did you mean archive:IN"),
        (lambda *_: has_urls(Settings(), "archive"), "archive has no URL"),
        (lambda *_: has_urls(Settings(), "archive", settings=Settings(drain_s=5)), "archive has no URL"),
        (lambda *_: run_workers(options(ARCHIVE), Settings(), None), "only one process can open it"),
    ],
)
def test_a_program_that_makes_no_sense_is_refused(act: Callable[[App, App], object], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        act(*program())


def test_the_urls_of_a_program_come_from_its_source_and_its_settings() -> None:
    app, _ = program()
    sources = {"url": "environment", "queue_managers.archive.url": "environment"}
    given = {"archive": QueueManagerSettings(url="embedded:./b")}

    assert {"": "embedded:./orders?qmgr=QM1", "archive": ARCHIVE} == app.urls(Settings())
    assert {"": "embedded:./a", "archive": ARCHIVE} == app.urls(Settings(url="embedded:./a", sources={"url": "environment"}))
    settings = Settings(url="embedded:./a", queue_managers=given, sources=sources)
    assert {"": "embedded:./a", "archive": "embedded:./b"} == app.urls(settings) == has_urls(settings, "archive")


@pytest.mark.parametrize(("only", "left"), [("IN", [["IN"], []]), ("archive:IN", [[], ["IN"]]), ("archive:book", [[], ["IN"]])])
def test_only_keeps_the_listeners_of_the_queue_manager_that_it_names(only: str, left: list[list[str]]) -> None:
    apps = program()

    apps[0].listen_only([only])

    assert left == [[listener.queue for listener in app.listeners] for app in apps]


def test_an_application_is_not_ready_until_each_included_one_has_started() -> None:
    events = list[Event]()
    broadcast = Broadcast([lambda event: events.append(event)])  # noqa: PLW0108 - a hook has a parameter with this name
    whole = Readiness(broadcast)
    part = Readiness(broadcast, name="archive", whole=whole)

    whole.started()
    before = whole.ready, whole.missing
    part.started()

    assert (False, ("archive",)) == before
    assert (True, ()) == (whole.ready, whole.missing)
    assert [ReadinessChanged(ready=True)] == events


async def test_a_queue_manager_that_no_application_has_is_refused(mq: QueueManagerKit) -> None:
    app, _ = program()

    with pytest.raises(ConfigurationError, match="No included application is called archiv:"):
        async with mq.run(app, others={"archiv": mq.beside()}):
            pass


async def test_mistyped_settings_of_an_included_application_are_a_warning(mq: QueueManagerKit) -> None:
    """Without it, the application would silently use the URL in the source code, without a user."""
    given = {"archve": QueueManagerSettings(url="embedded:./other")}
    (app, _), events = program(Settings(queue_managers=given)), list[Event]()
    app.hooks.append(lambda event: events.append(event))  # noqa: PLW0108 - a hook has a parameter with this name

    qm2 = mq.beside("QM2")
    for kit in (mq, qm2):
        kit.define("IN")

    async with mq.run(app, others={"archive": qm2}):
        pass

    [warned] = [event.text for event in events if isinstance(event, Warned) and "settings" in event.text]
    assert "There are settings for a queue manager 'archve', but no such queue manager. Did you mean 'archive'?" == warned


async def test_a_publisher_of_another_queue_manager_is_refused_for_a_handler(mq: QueueManagerKit) -> None:
    app, archive = program()

    @app.listener("MORE")
    @archive.publisher("OUT")
    async def pass_on(body: str) -> str:
        return body

    with pytest.raises(ConfigurationError, match=r"pass_on: its publisher for OUT belongs to another application"):
        async with mq.run(app, others={"archive": mq.beside()}):
            pass


async def test_a_status_names_the_queue_manager_of_each_listener_queue_and_count(mq: QueueManagerKit) -> None:
    listeners = {"archive:IN": ListenerSettings(concurrency=3)}
    (app, archive), qm2 = program(Settings(listeners=listeners)), mq.beside("QM2")
    kits = {"": mq, "archive": qm2}
    counters = {name: EventCounts() for name in kits}
    for each, kit, counter in zip((app, archive), kits.values(), counters.values(), strict=True):
        kit.define("IN")
        each.hooks.append(counter)
    source = ProcessSource(app, *app.urls(Settings()).values(), counts=partial(counts_of_all, counters))
    inquire = figures_of_all({name: partial(figures, kit.queue_manager) for name, kit in kits.items()})

    async with mq.run(app, others={"archive": qm2}) as running:
        await running.wait_ready()
        await qm2.put("IN", "1")
        await anyio.sleep(1)
        status = source.status()
        running.order("archive:IN", held=True)
        running.order("book", concurrency=2)
        states = [(each.name, each.queue, each.held, each.concurrency) for each in running.listeners()]
        with pytest.raises(LookupError, match=r"no listener 'archive:OUT'\. The listeners are: book, archive:book\."):
            running.order("archive:OUT", held=True)

    assert "embedded:./orders?qmgr=QM1 and embedded:./archive?qmgr=QM2" == status.url
    assert [("book", "IN", False, 2), ("archive:book", "archive:IN", True, 3)] == states
    assert [("book", "IN"), *[("archive:book", "archive:IN")] * 3] == [row[1:3] for row in worker_rows(status)]
    assert ("IN", "archive:IN") == status.queues
    found = inquire(status.queues)
    assert [("IN", 0, ""), ("archive:IN", 0, "")] == [(each.queue, each.depth, each.refused) for each in found]
    assert ((("archive:IN",), 1.0),) == status.processes[0].counts["messages_delivered"]
    assert judge(status).ready
