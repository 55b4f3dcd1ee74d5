"""`mqflow explain`, `plugins`, `docs` and `init` as whole results; and why an application cannot be imported."""

import base64
import hashlib
import io
import json
import sys
import zipfile
from importlib.metadata import distribution
from itertools import count, pairwise
from pathlib import Path

import pytest

from mqflow import App
from mqflow.app.config.plugins import Group, Plugin, PluginError
from mqflow.app.config.settings import Settings
from mqflow.app.errors import ConfigurationError
from mqflow.cli.applications import init, plugins
from mqflow.cli.applications.application_loader import ImportFailedError, load_application
from mqflow.cli.applications.docs import page
from mqflow.cli.applications.run_state import ReconnectLine
from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import Reconnecting
from mqflow.testing.virtual_clock import VirtualClock
from tests.cli.conftest import Run

_numbers = count()


def written(text: str) -> str:
    """Write the application to a module that no other test has imported, and return its name."""
    name = f"explained_{next(_numbers)}"
    Path(f"{name}.py").write_text(text)
    return name


def tables(text: str) -> dict[str, list[tuple[str, ...]]]:
    """Return the rows of each printed table by the title of its first column."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for table in text.strip().split("\n\n"):
        head, rule, *rows = table.splitlines()
        ends = [0]
        for column in rule.split("  "):
            ends.append(ends[-1] + len(column) + 2)
        cells = [tuple(row[a:b].strip() for a, b in pairwise(ends)) for row in rows]
        found[head[: ends[1]].strip()] = cells
    return found


# -- explain

PLAIN = """
from mqflow import App
app = App()
@app.listener("ORDERS.IN")
async def book(order: str) -> None: ...
"""
SEVERAL = f"""{PLAIN}
archive = App(name="archive")
app.include_app(archive)
@archive.listener("SYSTEM.DEFAULT.LOCAL.QUEUE")
async def answer(order: str) -> None: ...
"""
FULL = """
from mqflow import App, Backout, Pace
app = App(url="embedded:./data?qmgr=QM1")
app.delay_processor(2)
app.schedule(60, "SMALL", name="minute")
app.dead_letter_handler("rules.tbl", queue="DEAD")

@app.listener(
    "SMALL", name="little", concurrency=3, unit_of_work=4, time_limit_s=1.5,
    backout=Backout(threshold=2, queue="ORDERS.BOQ", undecodable="redeliver", pace=Pace(first_s=1, max_s=30, factor=3)),
)
async def take(order: str) -> None: ...

@app.listener("ORDERS.BOQ")
async def look(order: str) -> None: ...

@app.listener(topic="Prices/#", character_wildcards=True)
async def price(body: bytes) -> None: ...
"""


def test_the_effective_values_of_an_application_and_its_listener_are_two_tables(run: Run, queues: None) -> None:
    shown = run("explain", f"{written(PLAIN)}:app")

    assert (0, "") == (shown.exit_code, shown.stderr)
    application, listener = tables(shown.stdout).values()
    assert [
        ("url", "embedded:./data?qmgr=QM1", "environment (MQFLOW_URL)"),
        ("delayed messages wait on", "SYSTEM.DDELAY.LOCAL.QUEUE", "default"),
        ("and are delivered by", "the process that has the queue manager open", "default"),
        ("retries that wait there", "more than 5 s", "default"),
    ] == application
    assert [
        ("handlers", f"explained_{next(_numbers) - 1}.book", "source"),
        ("concurrency", "1", "source"),
        ("unit_of_work", "1", "source"),
        ("time_limit_s", "none", "source"),
        ("backout threshold", "1", "BOTHRESH of ORDERS.IN"),
        ("backout requeue queue", "ORDERS.BOQ", "BOQNAME of ORDERS.IN"),
        ("behaviour", "jms-listener", "source"),
        ("undecodable", "at-once", "source"),
        ("pause before redelivery", "0.05 s, then times 2 up to 30 s", "source"),
    ] == listener


def test_settings_and_declarations_are_the_sources_of_the_values(
    run: Run, queues: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MQFLOW_URL")
    monkeypatch.setenv("MQFLOW_DELAY_QUEUE", "LATER")
    monkeypatch.setenv("MQFLOW_RETRY_IN_WORKER_S", "7.5")
    (tmp_path / "rules.tbl").write_text("WAIT(20) RETRYINT(30)\nACTION(RETRY)")
    (tmp_path / "mqflow.toml").write_text(
        "[listeners.SMALL]\nconcurrency = 6\nbackout_threshold = 4\n"
        "[listeners.little]\nconcurrency = 8\nunit_of_work = 9\ntime_limit_s = 2.5\n"
        'backout_threshold = 5\nbackout_requeue_queue = "ORDERS.BOQ"\n'
    )

    shown = run("explain", f"{written(FULL)}:app")

    assert 0 == shown.exit_code, shown.output
    found = tables(shown.stdout)
    assert [
        ("url", "embedded:./data?qmgr=QM1", "source"),
        ("delayed messages wait on", "LATER", "environment (MQFLOW_DELAY_QUEUE)"),
        ("and are delivered by", "this application, on 2 connections", "source"),
        ("retries that wait there", "more than 7.5 s, on SYSTEM.DDELAY.LOCAL.QUEUE", "environment (MQFLOW_RETRY_IN_WORKER_S)"),
        ("dead letters on DEAD", "1 rule, every 30 s, until 20 s without work", "source"),
        ("schedule minute", "every 60 s, on SMALL", "source"),
    ] == found["application"]
    small = found["SMALL"]
    assert [
        ("concurrency", "8", "settings"),
        ("unit_of_work", "9", "settings"),
        ("time_limit_s", "2.5", "settings"),
    ] == small[1:4]
    assert ["5", "ORDERS.BOQ"] == [value for name, value, _ in small if name.startswith("backout")]
    assert [
        ("undecodable", "redeliver", "source"),
        ("pause before redelivery", "1 s, then times 3 up to 30 s", "source"),
    ] == small[-2:]
    topic = found["Prices/#"]
    assert [("subscription", "not durable", "source"), ("wildcards", "characters", "source")] == topic[:2]
    assert ("model of the managed queue", "SYSTEM.NDURABLE.MODEL.QUEUE", "the topic") in topic
    without_end = "has no backout threshold: a message that always fails is redelivered without end."
    unlimited = ("ORDERS.BOQ", "SYSTEM.NDURABLE.MODEL.QUEUE")
    assert [f"warning: {queue} {without_end}" for queue in unlimited] == shown.stderr.splitlines()


def test_the_connection_that_inquires_ends_before_its_queue_manager_is_closed(
    run: Run, queues: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts: list[str] = []
    disconnect, close = EmbeddedConnection.disconnect, EmbeddedQueueManager.close

    def disconnects(connection: EmbeddedConnection) -> None:
        acts.append("disconnects")
        disconnect(connection)

    def closes(queue_manager: EmbeddedQueueManager) -> None:
        acts.append("closes")
        close(queue_manager)

    monkeypatch.setattr(EmbeddedConnection, "disconnect", disconnects)
    monkeypatch.setattr(EmbeddedQueueManager, "close", closes)

    assert 0 == run("explain", f"{written(PLAIN)}:app").exit_code
    assert ["disconnects", "closes"] == acts


@pytest.mark.parametrize(
    ("boqname", "warning"),
    [
        (" ", "ORDERS.IN has no backout requeue queue: poison messages go to the dead-letter queue, if one is defined."),
        ("CIRCLE", "BOQNAME makes a circle: ORDERS.IN -> CIRCLE -> ORDERS.IN. "),
        ("ORDERS.IN", "BOQNAME makes a circle: ORDERS.IN -> ORDERS.IN. "),
        ("NOWHERE", "The backout requeue queue of ORDERS.IN cannot be used. MQOPEN on NOWHERE (QM1) failed: "),
        ("OTHER", ""),
    ],
)
def test_a_backout_requeue_queue_that_cannot_help_is_a_warning(run: Run, queues: None, boqname: str, warning: str) -> None:
    script = f"""
        DEFINE QLOCAL(CIRCLE) BOQNAME(ORDERS.IN)
        DEFINE QLOCAL(OTHER) BOQNAME(NOWHERE)
        ALTER QLOCAL(ORDERS.IN) BOTHRESH(2) BOQNAME('{boqname}')"""
    run("mqsc", "-", stdin=script)

    shown = run("explain", f"{written(PLAIN)}:app").stderr

    assert (f"warning: {warning}", 1) == (shown[: len(warning) + 9], shown.count("\n")) if warning else shown == ""


def test_a_listener_on_a_missing_queue_is_explained_with_a_warning(run: Run, queues: None) -> None:
    shown = run("explain", f"{written(PLAIN.replace('ORDERS.IN', 'MISSING'))}:app")

    assert ["handlers", "concurrency", "unit_of_work", "time_limit_s"] == [name for name, *_ in tables(shown.stdout)["MISSING"]]
    assert shown.stderr.startswith("warning: MQOPEN on MISSING (QM1) failed: MQRC_UNKNOWN_OBJECT_NAME (2085).")


def test_without_a_queue_manager_the_declarations_are_explained(run: Run) -> None:
    shown = run("explain", f"{written(PLAIN)}:app", "--url", "embedded:./nowhere?qmgr=QM1")

    assert "warning: there is no queue manager at nowhere yet, so no queue can be inquired.\n" == shown.stderr
    found = tables(shown.stdout)
    assert ("url", "embedded:./nowhere?qmgr=QM1", "an argument") == found["application"][0]
    assert 4 == len(found["ORDERS.IN"])
    assert not Path("nowhere").exists()


def test_for_ibm_mq_delayed_messages_wait_elsewhere(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def reach(url: str, **_: object) -> None:
        raise ConfigurationError(f"{url} cannot be reached")

    monkeypatch.setattr("mqflow.cli.applications.explain.reach_queue_manager", reach)
    url = "ibmmq://mq.example:1414/QM1?channel=APP"

    shown = run("explain", f"{written(PLAIN)}:app", "--url", url)

    assert [
        ("delayed messages wait on", "MQFLOW.DDELAY.QUEUE", "default"),
        ("and are delivered by", "another application", "default"),
        ("retries that wait there", "none: workers wait", "default"),
    ] == tables(shown.stdout)["application"][1:]


def test_an_included_application_has_tables_of_its_own_with_its_url_and_its_settings(
    run: Run, queues: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQFLOW_QUEUE_MANAGERS_ARCHIVE_URL", "embedded::memory:?qmgr=QM2")
    Path("mqflow.toml").write_text('[listeners."archive:SYSTEM.DEFAULT.LOCAL.QUEUE"]\nconcurrency = 8\n')

    shown = run("explain", f"{written(SEVERAL)}:app")

    found = tables(shown.stdout)
    names = ("application", "ORDERS.IN", "application archive", "archive:SYSTEM.DEFAULT.LOCAL.QUEUE")
    assert names == tuple(found)
    source = "environment (MQFLOW_QUEUE_MANAGERS_ARCHIVE_URL)"
    assert ("url", "embedded:./data?qmgr=QM1", "environment (MQFLOW_URL)") == found["application"][0]
    assert ("url", "embedded::memory:?qmgr=QM2", source) == found["application archive"][0]
    assert ("concurrency", "8", "settings") == found[names[-1]][1]
    [warning] = shown.stderr.splitlines()
    assert warning.startswith("warning: SYSTEM.DEFAULT.LOCAL.QUEUE has no backout threshold")


def test_a_script_reads_the_same_rows(run: Run, queues: None) -> None:
    name = written(PLAIN)

    records = [json.loads(line) for line in run("explain", f"{name}:app", "--json").stdout.splitlines()]

    rows = tables(run("explain", f"{name}:app").stdout)
    assert list(rows) == [record["of"] for record in records]
    assert list(rows.values()) == [[(row["name"], row["value"], row["source"]) for row in record["rows"]] for record in records]


def test_every_setting_is_shown_once_with_its_source(run: Run, queues: None, tmp_path: Path) -> None:
    (tmp_path / "mqflow.toml").write_text(
        'telemetry = false\n[listeners."ORDERS.IN"]\nconcurrency = 8\n[reconnect]\nlimit_s = 3.5\n'
    )
    name = written(PLAIN)

    shown = run("explain", f"{name}:app", "--config")
    [record] = [json.loads(line) for line in run("explain", f"{name}:app", "--config", "--json").stdout.splitlines()]

    rows = tables(shown.stdout)["settings"]
    assert [(row["name"], row["value"], row["source"]) for row in record["rows"]] == rows
    found = {key: (value, source) for key, value, source in rows}
    assert len(found) == len(rows)
    assert not {key for key in found if key.startswith(("sources", "warnings"))}
    assert [('listeners."ORDERS.IN".concurrency', "8")] == [
        (key, value) for key, (value, _) in found.items() if key.startswith("listeners")
    ]
    assert ("embedded:./data?qmgr=QM1", "environment (MQFLOW_URL)") == found["url"]
    assert ("3.5", "false", "not set") == tuple(found[key][0] for key in ("reconnect.limit_s", "telemetry", "user"))
    assert [True, True, "default"] == [
        "mqflow.toml" in found["reconnect.limit_s"][1],
        "mqflow.toml" in found["telemetry"][1],
        found["drain_s"][1],
    ]


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_secret_in_the_url_of_a_setting_is_not_shown(
    run: Run, queues: None, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    name = written(PLAIN)
    monkeypatch.setenv("MQFLOW_URL", "ibmmq:///QM1?ccdt=https://app:hunter2@mq.example/ccdt.json")
    monkeypatch.setenv("MQFLOW_QUEUE_MANAGERS_ARCHIVE_URL", "embedded:./data?qmgr=QM1&password=hunter2")

    shown = run("explain", f"{name}:app", "--config", *more)

    assert (0, False) == (shown.exit_code, "hunter2" in shown.output)
    assert "password=***" in shown.output


INCLUDED = """
from mqflow import App
app, archive = App(name="orders"), App("embedded:./archive?qmgr=QM2", name="archive")
app.include_app(archive)

@app.listener("ORDERS.IN")
async def book(order: str) -> None: ...
"""


@pytest.mark.parametrize(("variable", "source"), [("", "source"), ("embedded:./other?qmgr=QM2", "mqflow.toml")])
def test_the_url_of_an_included_application_has_its_source(
    run: Run, queues: None, tmp_path: Path, variable: str, source: str
) -> None:
    if variable:
        (tmp_path / "mqflow.toml").write_text(f'[queue_managers.archive]\nurl = "{variable}"\n')

    shown = run("explain", f"{written(INCLUDED)}:app")

    name, value, by = tables(shown.stdout)["application archive"][0]
    assert ("url", variable or "embedded:./archive?qmgr=QM2") == (name, value)
    assert source in by


def test_mistyped_settings_of_an_included_application_are_a_warning(run: Run, queues: None, tmp_path: Path) -> None:
    (tmp_path / "mqflow.toml").write_text('[queue_managers.archve]\nurl = "embedded:./other?qmgr=QM2"\n')

    shown = run("explain", f"{written(INCLUDED)}:app")

    assert "'archve', but no such queue manager. Did you mean 'archive'?" in shown.stderr


def test_a_topic_whose_model_queue_is_missing_is_a_warning(run: Run, queues: None) -> None:
    text = PLAIN.replace('"ORDERS.IN"', 'topic="Prices/#"')
    assert 0 == run("mqsc", stdin="DEFINE TOPIC(PRICES) TOPICSTR('Prices') MNDURMDL(NOWHERE)").exit_code

    shown = run("explain", f"{written(text)}:app")

    said = "warning: Prices/#: topic object PRICES names the model queue NOWHERE, which does not exist.\n"
    assert (0, said) == (shown.exit_code, shown.stderr)


# -- an application that cannot be imported


@pytest.mark.parametrize(
    ("application", "said"),
    [
        ("shop.py", "before the colon comes a module name, as in `import`, not a file. Did you mean shop:app?"),
        ("src/shop.py:main", "before the colon comes a module name, as in `import`, not a file. Did you mean src.shop:main?"),
        ("1shop:x", "before the colon comes a module name, as in `import`, not a file. Did you mean app:x?"),
        ("no_such_package.shop:app", "there is no module no_such_package in {cwd} or on Python's path."),
        ("{name}.part:app", "there is no module {name}.part in {cwd} or on Python's path. Did you mean {name}?"),
        ("{name}:other", "{name} has no App called other; it has {name}:app, {name}:second."),
        ("{name}:number", "{name} has no App called number; it has {name}:app, {name}:second."),
        ("{empty}", "{empty} has no App called app; it has no App at all."),
    ],
)
@pytest.mark.usefixtures("run")
def test_a_wrong_name_of_an_application_is_explained(application: str, said: str) -> None:
    given = {"name": written(f"{PLAIN}\nsecond = App()\nnumber = 1\n"), "empty": written("x = 1"), "cwd": str(Path.cwd())}
    application, said = application.format_map(given), said.format_map(given)

    with pytest.raises(ConfigurationError) as refused:
        load_application(application)

    assert f"{application!r}: {said}" == str(refused.value)


@pytest.mark.usefixtures("run")
def test_an_error_of_the_module_itself_has_its_last_own_line() -> None:
    helper = written("import json\ndef read():\n    return json.loads('')\n")
    name = written(f"import {helper}\n{helper}.read()\n")

    with pytest.raises(ImportFailedError) as refused:
        load_application(f"{name}:app")

    said = f"'{name}:app' cannot be imported: {helper}.py, line 3: JSONDecodeError: Expecting value: line 1 column 1 (char 0)."
    assert said == str(refused.value)


@pytest.mark.usefixtures("run")
def test_a_module_that_ends_the_program_cannot_be_imported() -> None:
    name = written("import sys\nsys.exit(4)\n")

    with pytest.raises(ImportFailedError) as refused:
        load_application(f"{name}:app")

    said = f"'{name}:app' cannot be imported: {name}.py, line 2: the module ends the program (SystemExit: 4)."
    assert said == str(refused.value)


@pytest.mark.usefixtures("run")
def test_the_settings_of_an_application_are_those_of_the_machine_or_its_own_with_the_options_on_top() -> None:
    plain = load_application(f"{written(PLAIN)}:app", url=None, drain_s=3.0)
    own = load_application(
        written(
            "from mqflow import App\nfrom mqflow.app.config.settings import Settings\n"
            "app = App(settings=Settings(drain_s=9, user='u'))"
        ),
        drain_s=4.0,
        url=None,
    )

    assert isinstance(plain.settings, Settings)
    assert (3.0, "embedded:./data?qmgr=QM1") == (plain.settings.drain_s, plain.settings.url)
    assert isinstance(own.settings, Settings)
    assert (4.0, "u", {"drain_s": "an argument"}) == (own.settings.drain_s, own.settings.user, dict(own.settings.sources))
    assert isinstance(own, App)


@pytest.mark.usefixtures("run")
def test_an_application_of_the_current_folder_comes_before_all_others_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    name = written("from mqflow import App\napp = App(name='here')")
    Path("elsewhere").mkdir()
    Path("elsewhere", f"{name}.py").write_text("from mqflow import App\napp = App(name='elsewhere')")
    monkeypatch.syspath_prepend(str(Path("elsewhere").resolve()))

    assert "here" == load_application(f"{name}:app").name
    assert str(Path.cwd()) == sys.path[0]


# -- the line of an outage


@pytest.mark.parametrize(
    ("event", "row"),
    [
        ({"attempt": 0, "reason": 2009}, "QM1: reconnecting; the connection is lost, MQRC_CONNECTION_BROKEN (2009)"),
        ({"attempt": 1, "lost_for_s": 59.4}, "QM1: reconnecting, 59 s away; attempt 1 failed, REASON"),
        ({"attempt": 2, "lost_for_s": 60.0}, "QM1: reconnecting, 1 min away; attempt 2 failed, REASON"),
        ({"attempt": 2, "lost_for_s": 3_599.0}, "QM1: reconnecting, 59 min away; attempt 2 failed, REASON"),
        ({"attempt": 2, "lost_for_s": 3_600.0}, "QM1: reconnecting, 1 h 0 min away; attempt 2 failed, REASON"),
        ({"attempt": 2, "lost_for_s": 7_500.0}, "QM1: reconnecting, 2 h 5 min away; attempt 2 failed, REASON"),
        ({"attempt": 3, "next_in_s": 90.0}, "QM1: reconnecting, 0 s away; attempt 3 failed, REASON; next in 1 min"),
        ({"attempt": 3, "next_in_s": 0.4}, "QM1: reconnecting, 0 s away; attempt 3 failed, REASON; next in 1 s"),
    ],
)
def test_the_line_of_an_outage_has_its_length_and_the_last_failure(event: dict[str, float], row: str) -> None:
    terminal = io.StringIO()
    plain = {"queue_manager": "QM1", "reason": 2059, "delay_s": 1.0, "lost_for_s": 0.0}

    ReconnectLine(terminal, VirtualClock())(Reconnecting(**plain | event))  # type: ignore[arg-type]  # fields by name

    expected = row.replace("REASON", "MQRC_Q_MGR_NOT_AVAILABLE (2059)")
    assert f"\r\x1b[2K{expected}" == terminal.getvalue()


# -- plugins

GOOD, BAD = (
    Plugin(group=group, name=name, target=f"shop:{name}", distribution="shop", version="1.2")
    for group, name in zip(tuple(Group)[:2], ("good", "bad"), strict=True)
)


def test_each_plugin_is_loaded_and_a_failure_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(plugin: Plugin) -> None:
        if plugin is BAD:
            raise PluginError("bad cannot be imported")

    monkeypatch.setattr(plugins, "load", load)
    shown: list[tuple[int, str, str]] = []
    for found in ((GOOD,), (GOOD, BAD), ()):
        monkeypatch.setattr(plugins, "installed", lambda found=found: found)
        done = run("plugins")
        shown.append((done.exit_code, done.stdout.splitlines()[-1].rstrip(), done.stderr))
    monkeypatch.setattr(plugins, "installed", lambda: (GOOD, BAD))
    records = [json.loads(line) for line in run("plugins", "--json").stdout.splitlines()]

    kinds = [plugin.group.value.removeprefix("mqflow.") for plugin in (GOOD, BAD)]
    assert [0, 1, 0] == [code for code, *_ in shown]
    assert [kinds[0], "good", "shop:good", "shop", "1.2", "ok"] == shown[0][1].split()
    assert [kinds[1], "bad", "shop:bad", "shop", "1.2", "failed"] == shown[1][1].split()
    assert ["No installed distribution offers a plugin.", ""] == list(shown[2][1:])
    assert ["", "mqflow: bad cannot be imported\n"] == [shown[0][2], shown[1][2]]
    assert [
        {"kind": kind, "name": name, "object": f"shop:{name}", "distribution": "shop", "version": "1.2", "problem": problem}
        for kind, name, problem in zip(kinds, ("good", "bad"), ("", "bad cannot be imported"), strict=True)
    ] == records


# -- documents


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "#/components/schemas/Line"}, "Line"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer or null"),
        ({"oneOf": [{"$ref": "x/A"}, {"$ref": "x/B"}]}, "A or B"),
        ({"enum": ["a", 2]}, "one of a, 2"),
        ({"type": "array", "items": {"$ref": "x/Line"}}, "list of Line"),
        ({"type": "array"}, "list of any value"),
        ({"type": "string", "format": "date"}, "string (date)"),
        ({"type": "number"}, "number"),
        ({}, "any value"),
    ],
)
def test_a_page_says_the_type_of_a_field_in_words(schema: dict[str, object], words: str) -> None:
    document = {
        "asyncapi": "3.0.0",
        "info": {"title": "T", "version": "1"},
        "channels": {},
        "operations": {},
        "components": {"schemas": {"Order": {"type": "object", "properties": {"field": schema}}}},
    }

    assert words in page(document)


def test_the_format_of_a_document_is_the_option_or_the_end_of_the_file(run: Run, tmp_path: Path) -> None:
    name = written(PLAIN)

    plain = run("docs", f"{name}:app")
    named = {format_: run("docs", f"{name}:app", "--format", format_).stdout for format_ in ("json", "yaml", "html")}
    for file in ("a.YML", "a.txt", "a.html"):
        assert f"{file}: 1 channel, 1 operation.\n" == run("docs", f"{name}:app", "-o", file).stderr
    run("docs", f"{name}:app", "-o", "b.html", "--format", "json")

    assert (plain.stdout, "") == (named["json"], plain.stderr)
    assert plain.stdout.endswith("}\n")
    assert {"title": f"{name}:app", "version": "1.0.0"} == json.loads(plain.stdout)["info"]
    texts = [(tmp_path / file).read_text() for file in ("a.YML", "a.txt", "a.html", "b.html")]
    assert [named["yaml"], named["json"], named["html"], named["json"]] == texts


# -- init


@pytest.mark.parametrize(
    ("options", "files", "tried"),
    [((), ".gitignore, Containerfile, app.py, mqflow.toml, pyproject.toml, queues.mqsc, test_app.py",
      ["mqflow mqsc queues.mqsc", """mqflow put NAMES.IN '{"name": "Ada"}'""", "mqflow run app:app"]),
     (("--plugin",), "pyproject.toml, shop.py, test_shop.py", ["mqflow plugins"])],
    ids=["application", "plugin"],
)  # fmt: skip
def test_a_new_project_is_printed_with_its_files_and_the_next_commands(
    run: Run, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], files: str, tried: list[str]
) -> None:
    monkeypatch.setattr("mqflow.cli.applications.init.is_from_index", lambda _: True)

    made = run("init", *options, "new/shop")

    lines = made.stdout.splitlines()
    assert (0, "", "Next:") == (made.exit_code, made.stderr, lines[0].rpartition(" ")[2])
    assert sorted(files.split(", ")) == sorted(path.name for path in Path("new/shop").iterdir())
    assert set(files.split(", ")) == set(lines[0].removeprefix("Created new/shop with ").removesuffix(". Next:").split(", "))
    assert ["", *(f"  {line}" for line in ("cd new/shop", "pip install -e '.[test]'", "pytest", *tried))] == lines[1:]
    assert "  cd 'my shop'\n" in run("init", "my shop").stdout


def test_a_wheel_of_mqflow_goes_to_the_other_wheels_of_the_folder(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqflow.cli.applications.init.is_from_index", lambda _: False)
    monkeypatch.setattr("mqflow.cli.applications.init.make_wheel", lambda _: ("mqflow.whl", b"a wheel"))
    Path("shop/wheels").mkdir(parents=True)
    Path("shop/wheels/other.whl").touch()

    made = run("init", "shop")

    assert ["mqflow.whl", "other.whl"] == sorted(path.name for path in Path("shop/wheels").iterdir())
    assert (0, b"a wheel") == (made.exit_code, Path("shop/wheels/mqflow.whl").read_bytes())
    assert "  pip install --find-links wheels -e '.[test]'" in made.stdout.splitlines()


@pytest.mark.parametrize(
    ("name", "label"), [("My Shop_2", "my-shop-2"), ("__", "application"), ("x" * 39 + "--y", "x" * 39), ("a" * 50, "a" * 40)]
)
def test_the_name_in_kubernetes_has_the_letters_that_a_label_can_have(run: Run, name: str, label: str) -> None:
    Path(name).mkdir()
    (Path(name) / "app.py").touch()

    made = run("init", "--kubernetes", name)

    assert 0 == made.exit_code, made.output
    assert f"name: {label}\n" in (Path(name) / "kubernetes" / "deployment.yaml").read_text()
    assert made.stdout.startswith(f"Created {name}/kubernetes with ")
    assert made.stdout.endswith(". kustomization.yaml says what to change, and the commands.\n")


@pytest.mark.parametrize(
    ("kind", "missing"),
    [("--kubernetes", "app.py"), ("--compose", "app.py, no Containerfile, no queues.mqsc")],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_a_folder_without_an_application_gets_no_deployment_files(run: Run, kind: str, missing: str, *, is_there: bool) -> None:
    if is_there:
        Path("shop").mkdir()

    refused = run("init", kind, "shop")

    text = f"shop has no {missing}: {kind} is for an application. `mqflow init shop` creates an application."
    assert (2, f"mqflow: {text} Nothing was changed.\n") == (refused.exit_code, refused.stderr)
    assert [] == list(Path().rglob("shop/*"))
    assert is_there == Path("shop").exists()


def test_a_file_that_exists_is_named_and_nothing_is_made(run: Run, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "app.py").write_text("mine")

    refused = run("init", "shop")

    assert (2, "mqflow: shop has app.py already; choose another folder. Nothing was changed.\n") == (
        refused.exit_code,
        refused.stderr,
    )
    assert ["app.py"] == [path.name for path in (tmp_path / "shop").iterdir()]


# -- the wheel


def test_a_wheel_has_the_modules_the_metadata_and_a_record_of_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "mqflow"
    (package / "part" / "__pycache__").mkdir(parents=True)
    texts = {"__init__.py": b"", "part/one.py": b"one = 1\n", "py.typed": b""}
    for name, text in texts.items():
        (package / name).write_bytes(text)
    (package / "part" / "__pycache__" / "one.pyc").write_bytes(b"compiled")
    monkeypatch.setattr(init, "_PACKAGE", package)
    mqflow = distribution("mqflow")

    file, content = init.make_wheel(mqflow)

    stem = f"mqflow-{mqflow.version}"
    assert f"{stem}-py3-none-any.whl" == file
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
        assert {zipfile.ZIP_DEFLATED} == {each.compress_type for each in archive.infolist()}
    record = found.pop(f"{stem}.dist-info/RECORD").decode()
    assert {f"mqflow/{name}": text for name, text in texts.items()} == {
        name: text for name, text in found.items() if name.startswith("mqflow/")
    }
    assert {f"{stem}.dist-info/{name}" for name in ("METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE")} == {
        name for name in found if not name.startswith("mqflow/")
    }

    def digest(text: bytes) -> str:
        return base64.urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip("=")

    lines = [f"{name},sha256={digest(text)},{len(text)}" for name, text in found.items()]
    assert [*lines, f"{stem}.dist-info/RECORD,,"] == record.splitlines()
    assert record.endswith("\n")
