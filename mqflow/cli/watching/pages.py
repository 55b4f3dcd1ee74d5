"""The HTTP pages of a running application: /livez, /readyz, /metrics, /scale and /status. They are read only.

This file opens no port.
"""

from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from mqflow.cli.watching.control import Figures, Source
from mqflow.cli.watching.metrics import CONTENT_TYPE_LATEST, exposed
from mqflow.cli.watching.sockets import encoded
from mqflow.cli.watching.status_report import report, scale
from mqflow.policy.health.judge import Stuck, judge

__all__ = ("pages",)

_UNAVAILABLE: Final = 503
_INDEX: Final = "/livez\n/readyz\n/metrics\n/scale\n/status\n"


def pages(source: Source, figures: Figures, console: ASGIApp | None = None) -> Starlette:
    """Return the pages as an ASGI application. If a console is given, it is below /console."""

    def livez(request: Request) -> Response:  # noqa: ARG001 - the signature of starlette
        health = judge(source.status())
        dead = [_named(stuck) for stuck in health.stuck if stuck.is_dead]
        return _probe(is_well=health.live, why=dead)

    def readyz(request: Request) -> Response:  # noqa: ARG001 - the signature of starlette
        health = judge(source.status())
        return _probe(is_well=health.ready, why=[*health.why, *(stuck.stack for stuck in health.stuck if stuck.stack)])

    def metrics(request: Request) -> Response:  # noqa: ARG001 - the signature of starlette
        status = source.status()
        return Response(exposed(status, figures(status.queues)), media_type=CONTENT_TYPE_LATEST)

    def scale_page(request: Request) -> Response:  # noqa: ARG001 - the signature of starlette
        status = source.status()
        found = scale(status, figures(status.queues))
        return _json(found, _UNAVAILABLE if found.refused else 200)

    def status_page(request: Request) -> Response:  # noqa: ARG001 - the signature of starlette
        status = source.status()
        return _json(report(status, figures(status.queues)))

    def index(request: Request) -> Response:  # noqa: ARG001 - the signature of starlette
        return PlainTextResponse(_INDEX if console is None else f"{_INDEX}/console/\n")

    routes = {"/": index, "/livez": livez, "/readyz": readyz, "/metrics": metrics, "/scale": scale_page, "/status": status_page}
    mounted = [] if console is None else [Mount("/console", console)]
    return Starlette(routes=[*(Route(path, page) for path, page in routes.items()), *mounted])


def _probe(*, is_well: bool, why: list[str]) -> Response:
    text = "ok\n" if is_well else "\n".join(why) + "\n"
    # The name of a file in a stack can have bytes that are no UTF-8.
    return PlainTextResponse(text.encode("utf-8", "replace"), 200 if is_well else _UNAVAILABLE)


def _named(stuck: Stuck) -> str:
    return f"{stuck.text}\n{stuck.stack}" if stuck.stack else stuck.text


def _json(record: Any, status: int = 200) -> Response:  # Any: every record that msgspec encodes
    return Response(encoded(record), status, media_type="application/json")
