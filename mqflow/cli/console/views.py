"""The pages of the console, as an ASGI application: log-in, overview, failure groups, messages, search, changes, live updates.

Each page is made on the server, and works without scripts. The templates escape all texts. This file makes no decision.
"""

import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlencode

import anyio
import click
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mqflow.app.errors import ConfigurationError
from mqflow.app.run.decision_ledger import LedgerError
from mqflow.cli.console.access import HEADERS, Access, Session, refused_request
from mqflow.cli.console.changes import Changes, EditPlan, RedrivePlan, RefusedError, UnfitBodyError
from mqflow.cli.console.desk import Desk, MissingMessageError, Where
from mqflow.cli.console.lists import connections, decisions, delayed, rules
from mqflow.cli.console.queue_rows import PLOT_HEIGHT, PLOT_WIDTH, plot_points
from mqflow.cli.messages.browse import condition
from mqflow.cli.messages.delay import due_in_words
from mqflow.cli.messages.poison import ago, cause, details, times_of, trend_of
from mqflow.cli.text.exit_codes import sentence_of
from mqflow.cli.text.terminal import counted, safe
from mqflow.cli.watching.status import headline
from mqflow.cli.watching.status_report import worker_rows
from mqflow.mqi.descriptor import NO_ID
from mqflow.mqi.errors import MQIError

if TYPE_CHECKING:
    from mqflow.cli.console.history_desk import HistoryDesk

__all__ = ("console", "live_events")

_LIVE_S: Final = 2.0
_AT: Final = "/at/"
"""The path below which the consoles for the queue managers of included applications are."""
_NO_OTHERS: Final[Mapping[str, ASGIApp]] = {}
_STREAMS_MAX: Final = 20
_FORM_BYTES_MAX: Final = 8 * 1024 * 1024
_PERSON_MAX: Final = 80
_PLANS_MAX: Final = 50
_PLANS_BYTES_MAX: Final = 200_000_000
_IDENTITY_BYTES: Final = 150
"""The memory that a plan needs for each of its messages."""
_STATIC: Final = {"console.css": "text/css", "console.js": "text/javascript"}
_ERRORS: Final = (MQIError, LedgerError, ConfigurationError, MissingMessageError, RefusedError, OSError)


class _Call(Struct, frozen=True, kw_only=True):
    """A request, with its session and the fields of its form."""

    request: Request
    session: Session
    form: Mapping[str, str]

    def text(self, name: str) -> str:
        """Return a field of the form, or else of the query; empty if neither has this field."""
        return self.form.get(name, "") or self.request.query_params.get(name, "")

    def queue(self) -> str:
        name = self.text("queue")
        if not name:
            raise RefusedError("The address names no queue. Choose one on the overview.")
        return name

    def where(self) -> Where | None:
        """Return the filter of the page; None if there is no filter."""
        text = self.text("where").strip()
        try:
            return condition(text) if text else None
        except click.BadParameter as error:
            raise RefusedError(error.message) from error

    def message_id(self) -> bytes:
        try:
            found = bytes.fromhex(self.text("id"))
        except ValueError:
            found = b""
        if len(found) != len(NO_ID) or found == NO_ID:  # a get with zeros takes any message
            raise RefusedError(f"A MsgId has {2 * len(NO_ID)} hexadecimal digits. Search finds a message by some of them.")
        return found


class _Planned(Struct, frozen=True):
    """A plan that is carried out only when the person of this session confirms it."""

    session: Session
    plan: RedrivePlan | EditPlan

    @property
    def bytes_held(self) -> int:
        """About the memory of the plan, in bytes."""
        match self.plan:
            case RedrivePlan(identities=identities):
                return _IDENTITY_BYTES * len(identities)
            case EditPlan(seen=seen, before=before, after=after, data=data):
                return len(seen.body) + len(before) + len(after) + len(data)


class _Gate:
    """Refuses requests that are not for this console, and adds the security headers to every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app: Final = app
        self._access: Final = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        if scope["type"] != "http":
            return
        why_not = refused_request(scope["method"], scope["scheme"], Headers(scope=scope), self._access.hosts)
        app = PlainTextResponse(why_not + "\n", 403) if why_not else self._app
        await app(scope, receive, send_protected)


def console(
    desk: Desk,
    access: Access,
    changes: Changes | None = None,
    history: "HistoryDesk | None" = None,
    *,
    place: str = "",
    places: tuple[str, ...] = (),
    others: Mapping[str, ASGIApp] = _NO_OTHERS,
) -> ASGIApp:
    """Return the ASGI application. Without `changes` the console is read-only: it has no page that changes anything.

    With `history` it also has the pages about the tables. `others` are the consoles for the queue managers of included
    applications, by name; they have the same `access`. Each console shows all names in `places`; its own name is `place`.
    """
    pages = _Pages(desk, access, changes, history, place=place, places=places)
    get, post = ["GET"], ["POST"]
    routes: list[BaseRoute] = [
        Route("/", pages.guarded(pages.overview), methods=get),
        Route("/live", pages.live, methods=get),
        Route("/login", pages.login, methods=[*get, *post]),
        Route("/logout", pages.guarded(pages.logout), methods=post),
        Route("/queue", pages.guarded(pages.queue), methods=get),
        Route("/message", pages.guarded(pages.message), methods=get),
        Route("/decisions", pages.guarded(pages.decisions), methods=get),
        Route("/delayed", pages.guarded(pages.delayed), methods=get),
        Route("/connections", pages.guarded(pages.connections), methods=get),
        Route("/rules", pages.guarded(pages.rules), methods=get),
        Route("/search", pages.guarded(pages.search), methods=get),
        Route("/story", pages.guarded(pages.story), methods=get),
        Route("/static/{name}", pages.static, methods=get),
    ]
    if history is not None:
        routes += [
            Route("/history", pages.guarded(pages.history), methods=get),
            Route("/history/messages", pages.guarded(pages.history_messages), methods=get),
        ]
    if changes is not None:
        routes += [
            Route("/redrive", pages.guarded(pages.plan_redrive), methods=post),
            Route("/edit", pages.guarded(pages.edit), methods=get),
            Route("/edit", pages.guarded(pages.plan_edit), methods=post),
            Route("/carry-out", pages.guarded(pages.carry_out), methods=post),
        ]
    routes += [Mount(f"{_AT}{name}", other) for name, other in others.items()]
    handlers = {HTTPException: pages.http_error, Exception: pages.defect}
    return _Gate(Starlette(routes=routes, exception_handlers=handlers), access)  # outermost, so that errors have the headers


async def live_events(render: Callable[[], str], is_open: Callable[[], bool], every_s: float = _LIVE_S) -> AsyncIterator[bytes]:
    """Yield the rendered text as server-sent events while the session is open. An error is sent as an event too."""
    while is_open():
        try:
            text = await run_in_threadpool(render)
        except _ERRORS as error:
            yield _event("trouble", safe(sentence_of(error)))
        else:
            yield _event("overview", text)
        await anyio.sleep(every_s)


def _event(name: str, text: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"event: {name}\n{lines}\n".encode()


class _Pages:
    def __init__(
        self,
        desk: Desk,
        access: Access,
        changes: Changes | None,
        history: "HistoryDesk | None",
        *,
        place: str,
        places: tuple[str, ...],
    ) -> None:
        self._place: Final = place
        self._places: Final = places
        self._desk: Final = desk
        self._access: Final = access
        self._changes: Final = changes
        self._history: Final = history
        self._plans: OrderedDict[str, _Planned] = OrderedDict()
        self._streams = 0
        self._templates: Final = _environment()
        here = files("mqflow.cli.console") / "static"
        self._static: Final = {name: (here / name).read_bytes() for name in _STATIC}

    # -- log-in and errors

    def guarded(self, page: Callable[[_Call], Response]) -> Callable[[Request], Any]:
        """Return the endpoint for a page. It requires a session; a form must contain the secret of the session."""

        async def endpoint(request: Request) -> Response:
            session = self._access.session(request)
            if session is None:
                return RedirectResponse(self._top(request) + "/login", 303)
            form = await _form(request)
            if request.method == "POST" and not session.has_sent(form.get("csrf", "")):
                return self._error(
                    request, session, "The form is too old, or does not come from this session. Load its page again.", 403
                )
            call = _Call(request=request, session=session, form=form)
            try:
                return await run_in_threadpool(page, call)
            except _ERRORS as error:
                return self._error(request, session, sentence_of(error), 404 if isinstance(error, MissingMessageError) else 409)

        return endpoint

    async def login(self, request: Request) -> Response:
        """Show the log-in form. If the token is right, begin a session."""
        if request.method == "GET":
            return self._render(request, None, "login.html", problem="")
        form = await _form(request)
        person = safe(form.get("person", "").strip())[:_PERSON_MAX]
        problem = "Type your name: the audit log has it beside each change." if self._changes is not None and not person else ""
        identifier = None if problem else self._access.log_in(form.get("token", ""), person)
        if identifier is None:
            problem = problem or "This is not the token of this console. The console has printed it at its start."
            return self._render(request, None, "login.html", 403, problem=problem)
        answer = RedirectResponse(_root(request) + "/", 303)
        self._access.set_cookie(answer, identifier, request)
        return answer

    def logout(self, call: _Call) -> Response:
        """End the session."""
        self._access.log_out(call.request)
        return RedirectResponse(self._top(call.request) + "/login", 303)

    def static(self, request: Request) -> Response:
        """Answer with the style sheet or the script."""
        name = request.path_params["name"]
        if name not in self._static:
            raise HTTPException(404)
        return Response(self._static[name], media_type=_STATIC[name])

    async def http_error(self, request: Request, error: Exception) -> Response:
        """Answer a request for which there is no page."""
        assert isinstance(error, HTTPException)  # noqa: S101 - the handlers of `console` pass no other error here
        status = error.status_code
        text = {
            404: "The console has no such page. If it is read-only, it has no page that changes anything.",
            405: "This page does not take such a request.",
            413: "The form is too large.",
        }.get(status, "The request was refused.")
        return self._error(request, self._access.session(request), text, status)

    async def defect(self, request: Request, error: Exception) -> Response:
        """Answer after a defect of the console, without details. The log has the details."""
        text = f"The console has a defect ({type(error).__name__}). Its log has the traceback."
        return self._error(request, self._access.session(request), text, 500)

    # -- the pages

    def overview(self, call: _Call) -> Response:
        """Show queues, applications, listeners and workers."""
        return self._render(call.request, call.session, "overview.html", **self._overview_facts())

    async def live(self, request: Request) -> Response:
        """Send the overview, or the list of decisions, again every two seconds."""
        session = self._access.session(request)
        if session is None or self._streams >= _STREAMS_MAX:
            return PlainTextResponse("", 401 if session is None else 503)
        is_overview = request.query_params.get("page") != "decisions"
        template = self._templates.get_template("overview_live.html" if is_overview else "decisions_live.html")
        root = _root(request)

        def rendered() -> str:
            facts = self._overview_facts() if is_overview else {"page": decisions(self._desk)}
            return template.render(root=root, **facts)

        async def counted_events() -> AsyncIterator[bytes]:
            self._streams += 1
            try:
                async for event in live_events(rendered, lambda: self._access.session(request) is session):
                    yield event
            finally:
                self._streams -= 1

        return StreamingResponse(counted_events(), media_type="text/event-stream")

    def queue(self, call: _Call) -> Response:
        """Show the failure groups of a queue, and the messages of one group."""
        page = self._desk.groups(call.queue(), call.text("group"), call.where())
        where = call.text("where").strip()
        return self._render(call.request, call.session, "queue.html", page=page, now=self._desk.now(), where=where)

    def decisions(self, call: _Call) -> Response:
        """Show the last events of messages, newest first."""
        return self._render(call.request, call.session, "decisions.html", page=decisions(self._desk))

    def delayed(self, call: _Call) -> Response:
        """Show the delayed messages."""
        return self._render(call.request, call.session, "delayed.html", page=delayed(self._desk), now=self._desk.now())

    def connections(self, call: _Call) -> Response:
        """Show the connections, and the outages of the applications."""
        return self._render(call.request, call.session, "connections.html", page=connections(self._desk))

    def rules(self, call: _Call) -> Response:
        """Show the rules tables, and the number of messages for each rule."""
        return self._render(call.request, call.session, "rules.html", pages=rules(self._desk))

    def message(self, call: _Call) -> Response:
        """Show all parts of a message."""
        page = self._desk.message(call.queue(), call.message_id())
        return self._render(call.request, call.session, "message.html", page=page)

    def search(self, call: _Call) -> Response:
        """Show the messages that contain a text."""
        text = call.text("text")
        page = self._desk.search(text, call.text("queue")) if text else None
        return self._render(call.request, call.session, "search.html", page=page, text=text, queue=call.text("queue"))

    def story(self, call: _Call) -> Response:
        """Show the story of a message, even if it is not on a queue."""
        entries, problem = self._desk.story(call.message_id())
        facts: dict[str, Any] = {"id": call.text("id"), "entries": entries, "problem": problem}
        return self._render(call.request, call.session, "story.html", **facts)

    def history(self, call: _Call) -> Response:
        """Show the failures in the tables, by week."""
        assert self._history is not None  # noqa: S101 - else the route does not exist
        asked = {name: call.text(name).strip() for name in ("until", "weeks", "owner")}
        page = self._history.page(**asked)
        return self._render(call.request, call.session, "history.html", page=page, asked=asked, number=self._history.number)

    def history_messages(self, call: _Call) -> Response:
        """Show the messages that are counted by a number on the history page."""
        assert self._history is not None  # noqa: S101 - as above
        number = call.text("number")
        page = self._history.messages(number)
        return self._render(call.request, call.session, "history_messages.html", page=page, number=number)

    # -- changes

    def plan_redrive(self, call: _Call) -> Response:
        """Show which messages a redrive would move."""
        assert self._changes is not None  # noqa: S101 - else the route does not exist
        plan = self._changes.plan_redrive(
            call.queue(),
            group=call.text("group"),
            message_id=call.message_id() if call.text("id") else b"",
            where=call.where(),
            of_tables=self._of_tables(call.text("number")),
            to=call.text("to").strip(),
        )
        return self._render(call.request, call.session, "plan.html", plan=plan, number=self._keep(call.session, plan))

    def edit(self, call: _Call) -> Response:
        """Show a form with the text of a message."""
        assert self._changes is not None  # noqa: S101 - as above
        _, text, target = self._changes.editable(call.queue(), call.message_id(), to=call.text("to").strip())
        return self._edit_form(call, text, str(target))

    def plan_edit(self, call: _Call) -> Response:
        """Show the old and the new body before the put."""
        assert self._changes is not None  # noqa: S101 - as above
        typed, to = call.form.get("body", ""), call.text("to").strip()
        try:
            plan = self._changes.plan_edit(call.queue(), call.message_id(), typed, to=to)
        except UnfitBodyError as error:
            return self._edit_form(call, typed, to or "the queue that it came from", str(error))
        return self._render(call.request, call.session, "plan_edit.html", plan=plan, number=self._keep(call.session, plan))

    def _edit_form(self, call: _Call, body: str, target: str, problem: str = "") -> Response:
        """Show the form with this body; after a problem, the body that the person has typed."""
        facts: dict[str, Any] = {
            "queue": call.queue(),
            "id": call.text("id"),
            "to": call.text("to"),
            "target": target,
            # The body is unchanged: `is_editable` has refused every unsafe character, or the person has typed the body.
            "body": Markup.escape(body),
            "problem": problem,
        }
        return self._render(call.request, call.session, "edit.html", 409 if problem else 200, **facts)

    def carry_out(self, call: _Call) -> Response:
        """Carry out a plan, once, for the person that has made it."""
        assert self._changes is not None  # noqa: S101 - as above
        planned = self._plans.get(call.text("plan"))
        if planned is None or planned.session is not call.session or self._plans.pop(call.text("plan"), None) is None:
            raise RefusedError("This plan is carried out already, or too old. Nothing was moved now. Look at the queue again.")
        match planned.plan:
            case RedrivePlan() as plan:
                done = self._changes.redrive(plan, call.session.person)
            case EditPlan() as plan:
                done = self._changes.edit(plan, call.session.person)
        return self._render(call.request, call.session, "done.html", done=done)

    # -- helpers

    def _keep(self, session: Session, plan: RedrivePlan | EditPlan) -> str:
        """Keep the plan, and return its number. Drop the oldest plans if there are too many, or too large ones."""
        number = secrets.token_urlsafe(16)
        self._plans[number] = _Planned(session, plan)
        held = sum(each.bytes_held for each in list(self._plans.values()))  # a copy: other threads keep and carry out plans
        while len(self._plans) > 1 and (len(self._plans) > _PLANS_MAX or held > _PLANS_BYTES_MAX):
            held -= self._plans.popitem(last=False)[1].bytes_held
        return number

    def _of_tables(self, number: str) -> frozenset[bytes] | None:
        """Return the MsgIds of the messages behind the count with this name on the history page; None if the name is empty."""
        if not number:
            return None
        if self._history is None:
            raise RefusedError("The form names messages of the tables, and this console has no --tables. Nothing was moved.")
        return self._history.identifiers(number)

    def _overview_facts(self) -> dict[str, Any]:
        page = self._desk.overview()
        history = self._desk.history
        plots = {
            row.name: {
                "depth": history.depths(0, row.name),
                "age": history.ages(0, row.name) if row.age_s is not None else (),
                "rate": self._desk.rates(page.applications, row.name),
            }
            for row in page.queues
        }
        return {"page": page, "plots": plots, "at": self._desk.now()}

    def _error(self, request: Request, session: Session | None, text: str, status: int) -> Response:
        return self._render(request, session, "error.html", status, text=text)

    def _top(self, request: Request) -> str:
        """Return the path of the console of the first queue manager, because people log in there."""
        return _root(request).removesuffix(f"{_AT}{self._place}")

    def _render(
        self, request: Request, session: Session | None, template: str, status: int = 200, **facts: Any
    ) -> Response:  # Any: values for the template
        text = self._templates.get_template(template).render(
            root=_root(request),
            session=session,
            may_change=self._changes is not None,
            has_history=self._history is not None,
            place=self._place,
            places={each: self._top(request) + (f"{_AT}{each}" if each else "") for each in self._places},
            **facts,
        )
        return HTMLResponse(text, status)


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("mqflow.cli.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=_shown,
    )
    environment.globals |= {
        "address": _address,
        "ago": ago,
        "cause": cause,
        "counted": counted,
        "due_in_words": due_in_words,
        "details": lambda group: tuple(details(group)),
        "headline": headline,
        "plot_height": PLOT_HEIGHT,
        "plot_points": plot_points,
        "plot_width": PLOT_WIDTH,
        "times_of": times_of,
        "trend_of": trend_of,
        "worker_rows": worker_rows,
    }
    return environment


def _shown(value: object) -> object:
    """Return text with escapes for control characters and for changes of the writing direction. Templates escape the rest."""
    return safe(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _address(path: str, **values: str) -> str:
    return f"{path}?{urlencode(values, errors='replace')}" if values else path


def _root(request: Request) -> str:
    return str(request.scope.get("root_path", ""))


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises `HTTPException` 413 if the form is too long, and 400 if the data are no form."""
    if request.method != "POST":
        return {}
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > _FORM_BYTES_MAX:
            raise HTTPException(413)
    try:
        fields = parse_qs(data.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=20)
    except ValueError as error:
        raise HTTPException(400) from error
    return {name: values[0] for name, values in fields.items()}
