"""An application of mqflow runs in the lifespan of a web application, and the routes of the web application put messages."""

import logging
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from functools import partial
from typing import Any

import anyio
import pytest
import uvicorn
from anyio.lowlevel import current_token
from fastapi import APIRouter, FastAPI
from httpx import ASGITransport, AsyncClient

from mqflow import App, ConfigurationError, MQIError, Settings
from mqflow.app.asyncapi import asyncapi_document
from mqflow.app.config.settings import ReconnectSettings
from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.listener.worker_events import WorkerEvents
from mqflow.testing.kit import QueueManagerKit
from mqflow_fastapi import MQ, attach

ROUTES = APIRouter()
LISTENS = {"ready": True, "missing": [], "incidents": 0}


@ROUTES.post("/{queue}")
async def put(queue: str, app: MQ) -> None:
    await app.put(queue, "order")


class Web:
    """A web application with a lifespan of its own, and its events in their order."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.web = FastAPI(title="Shop", version="2.0.0", lifespan=self.lifespan)
        self.web.include_router(ROUTES)

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        self.happened.append("the pool opens")
        try:
            yield
        finally:
            self.happened.append("the pool closes")

    def running(self) -> AbstractAsyncContextManager[Any]:
        return self.web.router.lifespan_context(self.web)

    def client(self) -> AsyncClient:
        return AsyncClient(transport=ASGITransport(self.web), base_url="http://web")


@pytest.fixture
def web() -> Web:
    return Web()


@pytest.fixture
def queues(mq: QueueManagerKit) -> None:
    mq.define("IN")
    mq.define("OUT")


@pytest.fixture
def app(mq: QueueManagerKit, monkeypatch: pytest.MonkeyPatch, queues: None) -> App:
    """An application that runs on the queue manager of the kit, also in a lifespan. A connection that it loses is lost."""
    made = App(settings=Settings(reconnect=ReconnectSettings(mode="DISABLED")))
    kit = mq.faults.wrap(mq.queue_manager)
    monkeypatch.setattr(made, "running", partial(made.running, kit, clock=mq.clock, random=mq.random))
    return made


async def answer(client: AsyncClient, path: str) -> tuple[int, Any]:
    response = await client.get(path)
    return response.status_code, response.json()


async def test_a_message_is_committed_before_the_response_and_handled_in_the_event_loop_of_the_routes(
    mq: QueueManagerKit, queues: None, web: Web
) -> None:
    app, loops = App(), [current_token()]

    @app.listener("IN")
    async def handle(body: str) -> None:
        loops.append(current_token())

    attach(web.web, app)
    async with mq.run(app), web.client() as client:
        await client.post("/OUT")
        assert ["order"] == [found.text() for found in mq.browse("OUT")]
        await client.post("/IN")
        await anyio.sleep(1)

    assert 2 == len(loops)
    assert 1 == len(set(loops))


async def test_readiness_says_what_is_missing_and_counts_the_incidents(
    mq: QueueManagerKit, queues: None, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App()

    @app.listener("IN")
    async def handle(body: str) -> None:
        return

    attach(web.web, app)
    async with mq.run(app, incidents=True) as running, web.client() as client:
        await running.wait_ready()
        answers = [await answer(client, "/readyz")]
        with mq.faults.outage():
            await anyio.sleep(1)
            answers.append(await answer(client, "/readyz"))
        await running.wait_ready()
        with monkeypatch.context() as defect:
            defect.setattr(WorkerEvents, "delivered", fail)
            await client.post("/IN")
            await anyio.sleep(0.1)
            answers.append(await answer(client, "/readyz"))
        await running.wait_ready()
        answers.append(await answer(client, "/readyz"))
    answers.append(await answer(web.client(), "/readyz"))

    lacks = {"ready": False, "missing": ["IN"], "incidents": 0}
    assert [(200, LISTENS), (503, lacks), (503, lacks | {"incidents": 1}), (200, LISTENS | {"incidents": 1})] == answers[:4]
    assert (503, {"ready": False, "missing": [], "incidents": 0}) == answers[4]


def fail(events: WorkerEvents, deliveries: Sequence[Delivery]) -> None:
    raise LookupError("a defect")


@pytest.mark.parametrize("listen", [True, False])
async def test_the_application_runs_inside_the_lifespan_of_the_web_application_and_drains_in_it(
    mq: QueueManagerKit, app: App, web: Web, *, listen: bool
) -> None:
    app.on_start(lambda: web.happened.append("mqflow starts"))
    app.on_stop(lambda: web.happened.append("mqflow stops"))
    handling = anyio.Event()

    @app.listener("IN")
    async def handle(body: str) -> None:
        handling.set()
        await anyio.sleep(5)
        web.happened.append("handled")

    attach(web.web, app, listen=listen)
    for _ in range(2):
        async with web.running(), web.client() as client:
            await client.post("/IN")
            await (handling.wait() if listen else anyio.sleep(10))
            assert (200, LISTENS) == await answer(client, "/readyz")

    handled = ["handled"] if listen else []
    once = ["the pool opens", "mqflow starts", *handled, "mqflow stops", "the pool closes"]
    assert once * 2 == web.happened
    assert (0 if listen else 2) == mq.depth("IN")


async def test_the_web_application_does_not_start_without_the_queue_manager(mq: QueueManagerKit, app: App, web: Web) -> None:
    @app.listener("IN")
    async def handle(body: str) -> None:
        return

    attach(web.web, app)

    with mq.faults.outage(), pytest.raises(MQIError, match="2059"):
        async with web.running():
            pass

    assert ["the pool opens", "the pool closes"] == web.happened


async def test_requests_go_on_when_the_application_has_ended_with_an_error_and_the_probes_and_the_log_say_so(
    mq: QueueManagerKit, app: App, web: Web, caplog: pytest.LogCaptureFixture
) -> None:
    @app.listener("IN")
    async def handle(body: str) -> None:
        return

    @web.web.get("/")
    async def index() -> list[str]:
        return web.happened

    attach(web.web, app)
    async with web.client() as client:
        async with web.running():
            with mq.faults.outage(), caplog.at_level(logging.ERROR, "mqflow.fastapi"):
                await anyio.sleep(60)
                answers = [await answer(client, path) for path in ("/", "/readyz", "/livez")]
        async with web.running():
            answers.append(await answer(client, "/livez"))

    ended = {"ready": False, "missing": [], "incidents": 0}
    expected = [(200, ["the pool opens"]), (503, ended), (503, {"live": False}), (200, {"live": True})]
    assert expected == answers
    assert "has ended with an error. Requests go on without it." in caplog.text
    assert "Traceback" in caplog.text


class Server(uvicorn.Server):
    """Says when it begins to end."""

    def __init__(self, web: FastAPI) -> None:
        super().__init__(uvicorn.Config(web, log_config=None, lifespan="on"))
        self.ending, self.answered = anyio.Event(), anyio.Event()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.ending.set()
        await super().shutdown(sockets)


def test_a_server_finishes_its_requests_before_the_application_drains(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """The route is in a mounted web application, and finds the application that is attached to the outer one."""
    app, inner, queue_manager = App(), FastAPI(), EmbeddedQueueManager("QM1")
    mqsc.run("DEFINE QLOCAL(IN)", queue_manager.administration)
    monkeypatch.setattr(app, "running", partial(app.running, queue_manager))

    @app.listener("IN")
    async def handle(body: str) -> None:
        await server.answered.wait()
        web.happened.append("handled")

    @inner.post("/")
    async def put_at_the_end(app: MQ) -> None:
        server.should_exit = True
        await server.ending.wait()
        await app.put("IN", "order")

    attach(web.web, app)
    web.web.mount("/inner", inner)
    server = Server(web.web)

    async def serve() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            async with anyio.create_task_group() as tasks, AsyncClient() as client:
                tasks.start_soon(server.serve, [listening])
                response = await client.post(f"http://127.0.0.1:{listening.getsockname()[1]}/inner/")
                web.happened.append(f"answered {response.status_code}")
                server.answered.set()

    with closing(queue_manager):
        anyio.run(serve)

    assert ["the pool opens", "answered 200", "handled", "the pool closes"] == web.happened


async def test_an_application_is_attached_once(mq: QueueManagerKit, queues: None, web: Web) -> None:
    with pytest.raises(ConfigurationError, match=r"/OUT needs an App, and none is attached .*: attach\(web, app\)"):
        await web.client().post("/OUT")
    attach(web.web, App(name="first"))
    with pytest.raises(ConfigurationError, match=r"'second'\)\): this web application has an App already.*include_app"):
        attach(web.web, App(name="second"))


async def test_the_asyncapi_document_is_a_route_and_a_path_of_none_leaves_a_route_out(mq: QueueManagerKit, web: Web) -> None:
    app, without = App(), FastAPI(openapi_url=None)

    @app.listener("IN")
    async def handle(body: str) -> None:
        """Book an order."""

    attach(web.web, app, asyncapi="/mq.json")
    attach(without, app, readyz=None, livez=None, asyncapi=None)

    async with web.client() as client:
        assert (200, asyncapi_document(app, title="Shop", version="2.0.0")) == await answer(client, "/mq.json")
        assert ["/{queue}"] == list((await client.get("/openapi.json")).json()["paths"])
    async with AsyncClient(transport=ASGITransport(without), base_url="http://web") as client:
        assert [404] * 3 == [(await client.get(path)).status_code for path in ("/readyz", "/livez", "/asyncapi.json")]
