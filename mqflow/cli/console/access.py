"""Decides which requests the console accepts, and adds the security headers to each answer.

The token of the console is in no URL, cookie or log: a person types it once. A session is a random identifier in a cookie. This
file reads requests, but no queue.
"""

import secrets
from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from mqflow.cli.watching.server import LOOPBACK, host_named
from mqflow.world import Clock

__all__ = ("HEADERS", "Access", "Session", "refused_request")

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # otherwise browsers send `Origin: null` with a form
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_SESSION_S: Final = 12 * 3_600.0
_SESSIONS_MAX: Final = 100


class Session(Struct):
    """The session of a person that has logged in."""

    #: The name that the person has typed. The audit log has this name.
    person: str
    #: The secret that each form of this session must contain.
    csrf: str
    until: float

    def has_sent(self, csrf: str) -> bool:
        """Return whether a form with this secret comes from a page of this session.

        The comparison takes the same time for every secret.
        """
        return secrets.compare_digest(csrf.encode(), self.csrf.encode())


def refused_request(method: str, scheme: str, headers: Mapping[str, str], hosts: Collection[str]) -> str:
    """Return why a request is refused, before its session is checked; empty if it is not refused.

    The Host header must name this console, because a request by DNS rebinding has the host name of another site. A request that
    changes something must come from a page of this console.
    """
    host = headers.get("host", "")
    named = host_named(host)
    if named not in hosts:
        known = ", ".join(sorted(hosts))
        return f"This console does not answer to the host name {named or 'of the request'}. It answers to {known}."
    if method in {"GET", "HEAD"}:
        return ""
    if headers.get("origin") != f"{scheme}://{host}":
        return "The form does not come from a page of this console. Open the console again."
    return ""


class Access:
    """The token of one console, and the sessions that were begun with it."""

    def __init__(self, clock: Clock, *, hosts: Collection[str] = LOOPBACK) -> None:
        """Make the token. `hosts` are the names that the Host header may have, without the port."""
        self.token: Final = secrets.token_urlsafe(32)
        #: The name of the cookie. It differs for each console, because all ports of a host share their cookies.
        self.cookie: Final = f"mqflow_console_{secrets.token_hex(4)}"
        self.hosts: Final = frozenset(map(str.lower, hosts))  # browsers write the names of hosts in lower case
        self._clock: Final = clock
        self._sessions: Final[dict[str, Session]] = {}

    def log_in(self, token: str, person: str) -> str | None:
        """Begin a session and return its identifier; None if the token is wrong."""
        if not secrets.compare_digest(token.strip().encode(), self.token.encode()):
            return None
        self._drop_old()
        identifier = secrets.token_urlsafe(32)
        self._sessions[identifier] = Session(person, secrets.token_urlsafe(32), self._clock.monotonic() + _SESSION_S)
        return identifier

    def log_out(self, request: Request) -> None:
        """End the session of the request."""
        self._sessions.pop(request.cookies.get(self.cookie, ""), None)

    def session(self, request: Request) -> Session | None:
        """Return the session of the request; None if it has no session, or if the session is too old."""
        found = self._sessions.get(request.cookies.get(self.cookie, ""))
        return None if found is None or found.until <= self._clock.monotonic() else found

    def set_cookie(self, response: Response, identifier: str, request: Request) -> None:
        """Give the browser the identifier of the session. Scripts cannot read it; requests of other sites do not have it."""
        path = request.scope.get("root_path") or "/"
        secure = request.url.scheme == "https"
        response.set_cookie(self.cookie, identifier, path=path, secure=secure, httponly=True, samesite="strict")

    def _drop_old(self) -> None:
        now = self._clock.monotonic()
        every = list(self._sessions.items())  # a copy, because another thread can end a session meanwhile
        kept = [name for name, session in every if session.until > now][-_SESSIONS_MAX + 1 :]
        for name in {name for name, _ in every}.difference(kept):
            self._sessions.pop(name, None)
