"""mqflow in FastAPI: listeners run beside the routes, in one event loop, and routes put messages.

`attach` runs an application of mqflow in the lifespan of a web application, and adds routes for its state. This module
knows FastAPI and the public names of mqflow. It knows no message.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Annotated, Any, Final

import anyio
from fastapi import APIRouter, Depends, FastAPI
from fastapi.requests import HTTPConnection
from fastapi.responses import JSONResponse

from mqflow import App, ConfigurationError
from mqflow.app.asyncapi import asyncapi_document

__all__ = ("MQ", "attach", "attached_app")

_NAME: Final = "mqflow"
"""The name of the application in the state of the web application, and in the state of its lifespan."""
_UNAVAILABLE: Final = 503

_logger = logging.getLogger("mqflow.fastapi")


def attach(
    web: FastAPI,
    app: App,
    *,
    readyz: str | None = "/readyz",
    livez: str | None = "/livez",
    asyncapi: str | None = "/asyncapi.json",
    listen: bool = True,
) -> None:
    """Run the application in the lifespan of the web application, and add routes for its state. Call this function once.

    The application starts after the lifespan of the web application has started, and drains before that lifespan ends.
    If its start fails, the web application does not start. With `listen=False` no listener runs, and routes can still put
    messages.

    The routes `readyz` and `livez` answer 200 or 503. The application is ready while every worker of its listeners has its
    queue open. It is not live after it has ended with an error, and only a restart of the process starts it again. The
    route `asyncapi` has its AsyncAPI document. None as a path leaves the route out.

    Raises `ConfigurationError` if the web application has an application of mqflow already.
    """
    if _attached_to(web) is not None:
        raise ConfigurationError(
            f"attach({web.title!r}, App(name={app.name!r})): this web application has an App already. "
            "For a second queue manager, write app.include_app(other) and attach app."
        )
    setattr(web.state, _NAME, app)
    beside = _Beside(app, listen=listen)

    @cache
    def document() -> dict[str, Any]:
        return asyncapi_document(app, title=web.title, version=web.version)

    async def describe() -> JSONResponse:
        return JSONResponse(document())

    router = APIRouter(lifespan=beside.lifespan)
    for path, route in ((readyz, beside.readyz), (livez, beside.livez), (asyncapi, describe)):
        if path is not None:
            router.add_api_route(path, route, include_in_schema=False)
    web.include_router(router)


async def attached_app(connection: HTTPConnection) -> App:
    """Return the application of mqflow that is attached to the web application of this request, or around it.

    Raises `ConfigurationError` if no application is attached, or if a mounted web application is called without the lifespan
    of the outer one.
    """
    found = _attached_to(connection.app) or _attached_to(connection)
    if found is None:
        raise ConfigurationError(
            f"{connection.url.path} needs an App, and none is attached to its web application: attach(web, app). "
            "A mounted web application finds the App of the outer one only while the lifespan of the outer one runs."
        )
    return found


MQ = Annotated[App, Depends(attached_app)]
"""The attached application as a parameter of a route: `async def take(order: Order, mq: MQ)`."""


def _attached_to(stateful: FastAPI | HTTPConnection) -> App | None:
    # getattr: the state has the attributes that `attach` and the lifespan give it.
    found: App | None = getattr(stateful.state, _NAME, None)
    return found


class _Beside:
    """An application beside the routes of a web application.

    The application runs in a task of its own. So its end with an error does not end the lifespan, which may have a database
    pool that the routes use.
    """

    def __init__(self, app: App, *, listen: bool) -> None:
        self._app: Final = app
        self._listen: Final = listen
        self._error: Exception | None = None
        #: The incidents of an application that has ended.
        self._incidents = 0

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[dict[str, App]]:
        """Run the application inside the block, and drain it at the end. Raises the error of its start."""
        failed = self._error = None
        self._incidents = 0
        started, stopping = anyio.Event(), anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._run, started, stopping)
            await started.wait()
            failed = self._error
            if failed is None:
                try:
                    yield {_NAME: self._app}
                finally:
                    stopping.set()
        if failed is not None:
            raise failed

    async def _run(self, started: anyio.Event, stopping: anyio.Event) -> None:
        try:
            async with self._app.running(listen=self._listen) as running:
                started.set()
                try:
                    await stopping.wait()
                finally:
                    self._incidents = running.incidents
        except Exception as error:
            if started.is_set():
                _logger.exception("%s has ended with an error. Requests go on without it.", self._app.name or "mqflow")
            self._error = error
        finally:
            started.set()

    async def readyz(self) -> JSONResponse:
        """Answer whether the application is ready, with the missing objects and the number of incidents."""
        running = self._app.current
        ready = running is not None and (running.ready or not self._listen)
        missing = () if running is None else running.missing
        incidents = self._incidents if running is None else running.incidents
        state = {"ready": ready, "missing": missing, "incidents": incidents}
        return JSONResponse(state, 200 if ready else _UNAVAILABLE)

    async def livez(self) -> JSONResponse:
        """Answer whether the application has not ended with an error."""
        live = self._error is None
        return JSONResponse({"live": live}, 200 if live else _UNAVAILABLE)
