"""The commands `mqflow console` and `mqflow run --console`: the starts that they refuse, and the address of the console."""

import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp

from mqflow import App
from mqflow.cli.console import console_command
from mqflow.cli.console.audit import AuditLog
from mqflow.cli.console.console_command import _one_at_a_time, _owners, console_of_application
from mqflow.cli.watching.control import QueueFigures
from mqflow.cli.watching.pages import pages
from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.policy.health.records import ListenerStatus
from mqflow.world import World
from tests.cli.conftest import Run
from tests.cli.console.conftest import Bench, Browser
from tests.cli.watching.test_pages import Fixed, process, worker

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("arguments", "said"),
    [pytest.param(("console", "--http", "0.0.0.0:0"), "The console on 0.0.0.0 needs TLS", id="beyond loopback without TLS"),
     pytest.param(("console", "--http", "nowhere"), "give HOST:PORT or PORT", id="no port"),
     pytest.param(("console", "--http", "0", "--tls-key", "key.pem"), "TLS needs both", id="a key without its certificate"),
     pytest.param(("console", "--http", "0", "--allow-changes", "--audit", "no/such/folder"), "cannot be written", id="no log"),
     pytest.param(("run", "console_shop:app", "--console"), "add --http 8080", id="a console without an address"),
     pytest.param(("run", "console_shop:app", "--console", "--http", "0.0.0.0:0"), "needs TLS",
         id="an application beyond loopback"),
     pytest.param(("run", "console_shop:app", "--allow-changes"), "add --console", id="changes without a console")],
)  # fmt: skip
def test_a_console_that_would_not_be_safe_does_not_start(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    Started(monkeypatch)  # so that no console is served
    (tmp_path / "key.pem").write_text("")
    (tmp_path / "console_shop.py").write_text(
        "from mqflow import App\napp = App()\n@app.listener('A')\nasync def f(b: bytes) -> None: ...\n"
    )

    done = run(*arguments)

    assert said in done.output
    assert 2 == done.exit_code


async def test_an_application_has_its_console_below_its_probes(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str], anyio_backend: str
) -> None:
    source = Fixed(process(0, worker(0)))

    def figures(queues: object, /) -> tuple[QueueFigures, ...]:
        return (QueueFigures(queue="ORDERS.IN", depth=7),)

    make = console_of_application("127.0.0.1:0", App(), bench.settings, allow_changes=False)
    app = pages(source, figures, make(source, figures, lambda _: nullcontext(bench.queue_manager)))
    token = capsys.readouterr().err.rpartition(" ")[2].strip()
    here = "http://localhost"
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=here, headers={"Origin": here}) as client:
        assert 200 == (await client.get("/livez")).status_code
        assert "/console/login" == (await client.get("/console/")).headers["location"]
        logged_in = await client.post("/console/login", data={"token": token})
        page = (await client.get("/console/")).text

    assert "Path=/console" in logged_in.headers["set-cookie"]
    assert 'href="/console/queue?queue=ORDERS.IN"' in page
    assert 'action="/console/logout"' in page
    assert "idle for 1 s" in page


class Started:
    """A console that `mqflow console` has made, and the arguments with which it would be served."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.served: list[tuple[object, ...]] = []
        self.pages: list[ASGIApp] = []
        self.waits: list[int] = []
        ended = SimpleNamespace(event=lambda: SimpleNamespace(wait=lambda: self.waits.append(len(self.served))))
        monkeypatch.setattr(console_command, "serving_pages", self._serving)
        monkeypatch.setattr(console_command, "THREADS", ended)

    @contextmanager
    def _serving(self, http: str, made: ASGIApp, said: str, *, tls: tuple[Path, Path] | None) -> Iterator[None]:
        self.served.append((http, said, tls))
        self.pages.append(made)
        yield


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    return Started(monkeypatch)


def test_a_read_only_console_is_served_on_this_machine_and_prints_its_token(run: Run, started: Started, queues: None) -> None:
    done = run("console")

    assert [("127.0.0.1:8161", "The console is on", None)] == started.served
    assert (0, "") == (done.exit_code, done.stdout)
    assert re.fullmatch(r"The token of the console: [\w-]{43}\n", done.stderr), done.stderr
    assert [1] == started.waits  # it serves until Ctrl-C


async def test_a_console_with_tables_has_the_pages_of_the_history(run: Run, started: Started, queues: None) -> None:
    done = [run("console", *options) for options in ((), ("--tables", "."))]

    codes = []
    for each, served in zip(done, started.pages, strict=True):
        browser = await Browser(served, each.stderr.split()[-1]).log_in()
        codes.append((await browser.get("/history")).status_code)
    assert [404, 200] == codes


async def test_a_console_has_the_queues_rules_and_host_names_of_its_options(
    run: Run, started: Started, queues: None, tmp_path: Path
) -> None:
    for name in ("one.pem", "one.key"):
        (tmp_path / name).touch()
    (tmp_path / "rules.tbl").write_text("ACTION(RETRY)")
    (tmp_path / "console_desk.py").write_text(
        "from mqflow import App\napp = App()\n@app.listener('ORDERS.IN')\nasync def f(b: bytes) -> None: ...\n"
    )
    options = ("--http", "0.0.0.0:7", "--tls-certificate", "one.pem", "--tls-key", "one.key", "--host", "mq.example")

    done = run(
        "console", *options, "--queue", "NOWHERE", "--rules", "rules.tbl", "--allow-changes", "--audit", "log", "--app",
        "console_desk:app",
    )  # fmt: skip

    assert [("0.0.0.0:7", "The console is on", (Path("one.pem"), Path("one.key")))] == started.served
    token, audit = done.stderr.splitlines()
    assert f"The console allows changes. Its audit log is {tmp_path / 'log'}." == audit
    [pages] = started.pages
    answers = dict[str, httpx.Response]()
    for host in ("mq.example", "other.example", "0.0.0.0"):  # noqa: S104 - a name that no browser sends
        here = f"https://{host}:7"
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=pages), base_url=here) as client:
            data = {"token": token.rpartition(" ")[2], "person": "amelie"}
            answers[host] = await client.post("/login", data=data, headers={"Origin": here})
            answers[f"rules of {host}"] = await client.get("/rules")
            answers[f"queues of {host}"] = await client.get("/")
    assert [303, 200, 200, *[403] * 6] == [answer.status_code for answer in answers.values()]
    assert "It answers to 127.0.0.1, ::1, localhost, mq.example." in answers["other.example"].text
    assert "rules.tbl" in answers["rules of mq.example"].text
    assert 'href="/queue?queue=NOWHERE"' in answers["queues of mq.example"].text


@pytest.mark.parametrize(
    ("missing", "options", "said"),
    [("mqflow.cli.console.views", (), "The console needs starlette, uvicorn and jinja2 (mqflow.cli.console.views is missing)"),
     ("pyarrow", ("--tables", "."), "--tables needs pyarrow and deltalake: pip install 'mqflow[console,delta]'."),
     ("deltalake", ("--tables", "."), "--tables needs pyarrow and deltalake: pip install 'mqflow[console,delta]'.")],
)  # fmt: skip
def test_a_console_without_its_packages_names_them(
    run: Run, started: Started, monkeypatch: pytest.MonkeyPatch, missing: str, options: tuple[str, ...], said: str
) -> None:
    monkeypatch.setattr(console_command, "find_spec", lambda name: None if name == missing else name)
    if missing.startswith("mqflow"):
        monkeypatch.setitem(sys.modules, missing, None)

    refused = run("console", *options)

    assert (2, True, []) == (refused.exit_code, said in refused.stderr, started.served)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--tls-key", "x.key"), "TLS needs both: --tls-certificate FILE and --tls-key FILE."),
        (("--tls-certificate", "x.key"), "TLS needs both: --tls-certificate FILE and --tls-key FILE."),
        (("--http", "mq.example:1"), "The console on mq.example needs TLS"),
    ],
)
def test_a_console_needs_a_whole_pair_for_tls_and_tls_beyond_this_machine(
    run: Run, started: Started, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    (tmp_path / "x.key").touch()

    refused = run("console", *options)

    assert (2, True, []) == (refused.exit_code, said in refused.stderr, started.served)


def test_a_name_after_the_prefix_of_an_owner_can_have_an_equals_sign() -> None:
    assert {"ORDERS.": "sales=west", "": "all"} == _owners(("ORDERS.=sales=west", "=all"))


class Doors:
    """Opens a queue manager, and notes each open and each close."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    @contextmanager
    def opened(self) -> Iterator[Any]:
        self.noted.append("opened")
        yield
        self.noted.append("closed")


def test_only_one_request_at_a_time_opens_a_folder() -> None:
    doors = Doors()
    open_one = _one_at_a_time("embedded:./data?qmgr=QM1", doors.opened)

    def open_and_close() -> None:
        with open_one():
            pass

    second = threading.Thread(target=open_and_close, daemon=True)
    with open_one():
        second.start()
        second.join(0.05)  # without the lock, it ends meanwhile
    second.join()

    assert ["opened", "closed"] * 2 == doors.noted


def test_requests_open_a_served_queue_manager_side_by_side() -> None:
    doors = Doors()
    open_one = _one_at_a_time("embedded+unix:a.sock?qmgr=QM1", doors.opened)

    with open_one(), open_one():
        assert ["opened"] * 2 == doors.noted


async def test_each_queue_manager_of_an_application_has_a_console_and_one_login_opens_all(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], anyio_backend: str
) -> None:
    monkeypatch.chdir(tmp_path)
    app, archive = App(), App("embedded::memory:?qmgr=QM2", name="archive")
    app.include_app(archive)
    both = process(0, worker(0))
    kept = ListenerStatus(name="archive:keep", queue="archive:KEPT", concurrency=1)
    source = Fixed(replace(both, listeners=(*both.listeners, kept)))
    with closing(EmbeddedQueueManager("QM2", world=World(bench.clock))) as other:
        mqsc.run("DEFINE QLOCAL(KEPT)\nDEFINE QLOCAL(KEPT.BOQ)", other.administration)
        opened = {"": bench.queue_manager, "archive": other}
        make = console_of_application("127.0.0.1:0", app, bench.settings, allow_changes=True)
        here = "http://localhost"
        made = Mount("/console", make(source, lambda _: (), lambda name: nullcontext(opened[name])))
        token = capsys.readouterr().err.split("console: ")[1].split()[0]
        transport = httpx.ASGITransport(app=Starlette(routes=[made]))
        async with httpx.AsyncClient(transport=transport, base_url=here, headers={"Origin": here}) as client:
            assert "/console/login" == (await client.get("/console/at/archive/queue?queue=KEPT")).headers["location"]
            await client.post("/console/login", data={"token": token, "person": "amelie"})
            first, second = (await client.get("/console/")).text, (await client.get("/console/at/archive/")).text

    links = re.findall(r'<a href="([^"]*)"( aria-current="page")?>', second.partition('aria-label="Queue managers">')[2])[:2]
    assert [("/console/", ""), ("/console/at/archive/", ' aria-current="page"')] == links
    assert ("<h1>QM1</h1>" in first, "<h1>QM2</h1>" in second) == (True, True)
    assert "ORDERS.BOQ" in first
    assert "queue?queue=KEPT" not in first
    assert "queue?queue=ORDERS" not in second
    assert 'href="/console/at/archive/queue?queue=KEPT.BOQ"' in second
    assert "queue=archive" not in first + second


async def test_a_console_finds_the_queue_managers_of_an_application_as_mqflow_run_does(
    run: Run, started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MQFLOW_URL", raising=False)
    (tmp_path / "both.py").write_text(
        "from mqflow import App\n"
        "app, archive = App('embedded:./first?qmgr=QM1'), App('embedded:./second?qmgr=QM2', name='archive')\n"
        "app.include_app(archive)\n"
    )
    script = tmp_path / "queues.mqsc"
    script.write_text("DEFINE QLOCAL(KEPT)")
    for place in ("first?qmgr=QM1", "second?qmgr=QM2"):
        assert 0 == run("mqsc", str(script), "--url", f"embedded:./{place}").exit_code

    done = run("console", "--app", "both:app")

    browser = await Browser(started.pages[0], done.stderr.split()[-1]).log_in()
    pages = [await browser.get(f"{place}/{page}") for place in ("", "/at/archive") for page in ("", "decisions", "delayed")]
    assert [200] * 6 == [page.status_code for page in pages]
    assert ("<h1>QM1</h1>" in pages[0].text, "<h1>QM2</h1>" in pages[3].text) == (True, True)


def test_the_audit_log_names_the_queue_manager_of_an_included_application(bench: Bench) -> None:
    AuditLog(bench.audit, bench.clock, "archive").write(action="redrive")

    [line] = map(json.loads, bench.audit.read_text().splitlines())
    assert ("archive", "redrive") == (line["queue_manager"], line["action"])
