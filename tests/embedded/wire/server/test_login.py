"""The user that a peer works as: by its password, by its certificate, or as the owner; and the sentence of each refusal."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mqflow.embedded.wire.protocol.requests import Hello
from mqflow.embedded.wire.protocol.streams import TlsStream
from mqflow.embedded.wire.server.login import SameUser, WithPassword, process_of_other
from mqflow.embedded.wire.server.password_guard import PasswordGuard
from mqflow.embedded.wire.server.users_file import UsersFileError
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.world import World
from tests.conformance.under_test import ManualClock

HERE = "192.0.2.1"


class Passwords:
    """bob and admin have the password "secret"; the owner made "remote" an administrator."""

    def __init__(self, problem: UsersFileError | None = None) -> None:
        self.problem = problem

    def knows(self, user: str, password: str) -> bool:
        if self.problem is not None:
            raise self.problem
        return user in {"bob", "admin", "remote"} and password == "secret"  # noqa: S105 - of a test

    def knows_again(self, user: str, password: str) -> bool:
        del user, password
        return False

    def administers(self, user: str) -> bool:
        if self.problem is not None:
            raise self.problem
        return user == "remote"


class Certified(TlsStream):
    """A stream behind TLS whose peer showed a certificate with these common names."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)

    @property
    def peer_names(self) -> list[str]:
        return self.names


class Kit:
    """A login over TCP, and its complaints."""

    def __init__(self, problem: UsersFileError | None = None) -> None:
        self.complaints: list[str] = []
        passwords, clock = Passwords(problem), ManualClock()
        guard = PasswordGuard(passwords, World(clock))
        self.login = WithPassword(passwords, None, {"admin", "remote"}.__contains__, self.complaints.append, guard)

    def user(self, user: str, password: str, *names: str) -> str:
        """Return the user, or the detail of the refusal."""
        hello = Hello(7, "QM1", "orders", user, password)
        plain: Any = None
        try:
            return self.login.user_of(hello, "owner", HERE, Certified(*names) if names else plain)
        except MQIError as error:
            return error.detail if (Reason.NOT_AUTHORIZED, "MQCONNX") == (error.reason, error.verb) else str(error)


@pytest.fixture
def kit() -> Kit:
    return Kit()


def no_password(user: str) -> str:
    return f"No user {user!r} has that password: `mqflow qmgr user QMGR USER` sets one"


ADMIN = (
    "admin administers the queue manager on its own machine, but not over TCP: connect as another user, or let the owner run "
    "`mqflow qmgr user QMGR admin --administrator`"
)
TWO = "The certificate has 2 common names ('bob', 'eve'), so it is for no user"
BOB_S = "The certificate is for bob, not for eve: leave the user out, or give the password of eve"


@pytest.mark.parametrize(
    ("user", "password", "names", "result", "complaint"),
    [
        ("bob", "secret", (), "bob", None),
        ("remote", "secret", (), "remote", None),
        ("bob", "wrong", (), no_password("bob"), f"The log-in of user 'bob' at {HERE} failed."),
        ("eve", "secret", (), no_password("eve"), f"The log-in of user 'eve' at {HERE} failed."),
        ("", "secret", (), no_password(""), f"The log-in of user '' at {HERE} failed."),
        ("admin", "secret", (), ADMIN, f"User 'admin' was refused (2035). {ADMIN}."),
        ("", "", ("bob",), "bob", None),
        ("bob", "", ("bob",), "bob", None),
        ("", "", ("admin",), ADMIN, f"User 'admin' was refused (2035). {ADMIN}."),
        ("eve", "", ("bob",), BOB_S, f"The log-in of user 'eve' at {HERE} with the certificate of 'bob' failed."),
        ("bob", "secret", ("eve",), "bob", None),
        ("bob", "secret", ("bob", "eve"), "bob", None),
        ("bob", "", ("bob", "eve"), f"{TWO}: give a user and a password", f"The log-in of user 'bob' at {HERE} failed. {TWO}."),
    ],
)
def test_a_user_over_tcp_has_a_password_or_a_certificate(
    kit: Kit, user: str, password: str, names: tuple[str, ...], result: str, complaint: str | None
) -> None:
    assert result == kit.user(user, password, *names)
    assert [complaint] * (complaint is not None) == kit.complaints


@pytest.mark.parametrize("names", [(), ("u" * 13,)])
def test_a_name_that_mq_has_no_room_for_is_refused_before_its_password_is_checked(kit: Kit, names: tuple[str, ...]) -> None:
    said = kit.user("" if names else "u" * 13, "" if names else "secret", *names)

    assert said.startswith(f"'{'u' * 13}' has 13 characters, and a user identifier of MQ (MQMD.UserIdentifier) at most 12")
    long = "The name has 13 characters, and a user identifier of MQ at most 12"
    assert [f"The log-in of user '{'u' * 12}'... at {HERE} failed. {long}."] == kit.complaints


def test_a_user_that_nobody_may_work_as_is_refused_without_a_password_too(kit: Kit) -> None:
    for user in ("bob", "remote"):
        kit.login.check_user(user)
    for user, detail in (("admin", ADMIN), ("", "A user has a name")):
        with pytest.raises(MQIError) as raised:
            kit.login.check_user(user)
        assert detail == raised.value.detail


@pytest.mark.parametrize(("user", "names"), [("bob", ()), ("admin", ("admin",))])
def test_a_log_in_that_needs_a_damaged_file_is_refused_and_only_the_log_names_the_file(
    user: str, names: tuple[str, ...]
) -> None:
    problem = UsersFileError(Path("QM1/users.json"), "it is damaged")
    kit = Kit(problem)

    said = kit.user(user, "" if names else "secret", *names)

    assert said.startswith(
        "MQCONNX failed: MQRC_UNEXPECTED_ERROR (2195). The queue manager cannot read its users: its log says why."
    )
    assert [f"The log-in of user '{user}' failed. {problem}"] == kit.complaints


def test_a_user_with_a_certificate_needs_no_file_of_users() -> None:
    assert "bob" == Kit(UsersFileError(Path("QM1/users.json"), "it is damaged")).user("", "", "bob")


def test_a_plain_server_over_tcp_sends_each_answer_at_once(kit: Kit) -> None:
    with socket.socket() as raw:
        assert raw is kit.login.secured(raw)
        assert 0 != raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert (True, False) == (kit.login.admits(raw), kit.login.same_machine)


def test_the_same_user_gets_in_over_a_unix_socket_and_works_as_any_user(monkeypatch: pytest.MonkeyPatch) -> None:
    login, (one, other) = SameUser(), socket.socketpair()
    with one, other:
        assert (True, one, True) == (login.admits(one), login.secured(one), login.same_machine)
        users = [login.user_of(Hello(7, "", "", user), "owner", "", one) for user in ("", "app")]
        user = os.geteuid()
        monkeypatch.setattr("os.geteuid", lambda: user + 1)
        assert not login.admits(one)

    assert ["owner", "app"] == users


def test_a_unix_socket_tells_the_process_of_a_program_beside_this_one(tmp_path: Path) -> None:
    address = str(tmp_path / "s")
    code = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({address!r}); s.recv(1)"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        with subprocess.Popen([sys.executable, "-S", "-c", code]) as beside:
            accepted, _ = server.accept()
            with accepted:
                told = process_of_other(accepted)

    one, other = socket.socketpair()
    with one, other:
        assert [beside.pid, 0, 0] == [told, process_of_other(one), process_of_other(object())]
