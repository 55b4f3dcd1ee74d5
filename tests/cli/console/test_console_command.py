"""The commands `mqflow console` and `mqflow run --console`: the starts that they refuse, and the address of the console."""

from contextlib import nullcontext
from pathlib import Path

import httpx
import pytest

from mqflow import App
from mqflow.app.config.settings import Settings
from mqflow.cli.console.console_command import console_of_application
from mqflow.cli.watching.figures import QueueFigures
from mqflow.cli.watching.pages import pages
from tests.cli.conftest import Run
from tests.cli.console.conftest import Bench
from tests.cli.watching.test_pages import Fixed, process, worker


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("console", "--http", "0.0.0.0:0"), "The console on 0.0.0.0 needs TLS", id="beyond loopback without TLS"),
        pytest.param(("console", "--http", "nowhere"), "give HOST:PORT or PORT", id="no port"),
        pytest.param(("console", "--http", "0", "--tls-key", "key.pem"), "TLS needs both", id="a key without its certificate"),
        pytest.param(
            ("console", "--http", "0", "--allow-changes", "--audit", "no/such/folder"), "cannot be written", id="no log"
        ),
        pytest.param(("run", "console_shop:app", "--console"), "add --http 8080", id="a console without an address"),
        pytest.param(
            ("run", "console_shop:app", "--console", "--http", "0.0.0.0:0"), "needs TLS", id="an application beyond loopback"
        ),
        pytest.param(("run", "console_shop:app", "--allow-changes"), "add --console", id="changes without a console"),
    ],
)
def test_a_console_that_would_not_be_safe_does_not_start(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "key.pem").write_text("")
    (tmp_path / "console_shop.py").write_text(
        "from mqflow import App\napp = App()\n@app.listener('A')\nasync def f(b: bytes) -> None: ...\n"
    )

    done = run(*arguments)

    assert said in done.output
    assert 2 == done.exit_code


@pytest.mark.anyio
async def test_an_application_has_its_console_below_its_probes(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str], anyio_backend: str
) -> None:
    source = Fixed(process(0, worker(0)))

    def figures(queues: object, /) -> tuple[QueueFigures, ...]:
        return (QueueFigures(queue="ORDERS.IN", depth=7),)

    make = console_of_application("127.0.0.1:0", App(), Settings(), bench.settings.url, allow_changes=False)
    app = pages(source, figures, make(source, figures, lambda: nullcontext(bench.queue_manager)))
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
