"""Guesses of passwords: pauses by user and address, one check at a time, and no wait for users that were proved before."""

import threading
from pathlib import Path

import pytest

from mqflow.embedded.wire.server.password_guard import PAUSE_S_MAX, PasswordGuard, pause_s
from mqflow.embedded.wire.server.users_file import UsersFile
from mqflow.world import THREADS, World
from tests.conformance.under_test import ManualClock

SECRET = "correct horse"  # noqa: S105 - a test's


class Passwords:
    """Knows the password "right" of every user. Each check takes a tenth of a second of the clock."""

    def __init__(self, clock: ManualClock) -> None:
        self.checks = 0
        self.at_once = 0
        self.most_at_once = 0
        self.proved: set[str] = set()
        self._clock = clock
        self._guard = threading.Lock()

    def knows(self, user: str, password: str) -> bool:
        with self._guard:
            self.checks += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self._clock.advance(0.1)
        threading.Event().wait(0)  # gives other threads the chance to enter
        with self._guard:
            self.at_once -= 1
        if password == "right":  # noqa: S105 - a test's
            self.proved.add(user)
        return password == "right"  # noqa: S105 - a test's

    def knows_again(self, user: str, password: str) -> bool:
        return user in self.proved and password == "right"  # noqa: S105 - a test's

    def administers(self, user: str) -> bool:
        return not user


class Pauses:
    """Threads whose events end a wait at once, and note its length."""

    lock = staticmethod(threading.Lock)
    mailbox = staticmethod(THREADS.mailbox)
    start = staticmethod(THREADS.start)

    def __init__(self) -> None:
        self.waited: list[float] = []

    def event(self) -> "Pauses":
        return self

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(round(timeout or 0.0, 6))
        return False

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def is_set(self) -> bool:
        return False


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
def passwords(clock: ManualClock) -> Passwords:
    return Passwords(clock)


@pytest.fixture
def guard(passwords: Passwords, clock: ManualClock, pauses: Pauses) -> PasswordGuard:
    return PasswordGuard(passwords, World(clock, runner=pauses))


@pytest.mark.parametrize(
    ("failures", "pause"), [(0, 0.0), (1, 0.25), (2, 0.5), (3, 1.0), (4, 2.0), (5, 4.0), (6, 4.0), (10_000, 4.0)]
)
def test_the_pause_doubles_with_each_failure_up_to_a_limit(failures: int, pause: float) -> None:
    assert pause == pause_s(failures)
    assert pause_s(failures) <= PAUSE_S_MAX


def test_a_guess_waits_for_the_failures_of_its_user_at_its_address(guard: PasswordGuard, pauses: Pauses) -> None:
    for _ in range(3):
        assert not guard.knows("alice", "wrong", "10.0.0.1")

    # Each failed check of 0.1 s is followed by a rest of 0.4 s of its address.
    assert [0.0, 0.4, 0.25, 0.4, 0.5, 0.4] == pauses.waited


@pytest.mark.parametrize(("user", "address"), [("alice", "10.0.0.2"), ("bob", "10.0.0.1")])
def test_another_user_or_another_address_does_not_wait_for_these_failures(
    guard: PasswordGuard, pauses: Pauses, user: str, address: str
) -> None:
    guard.knows("alice", "wrong", "10.0.0.1")
    pauses.waited.clear()

    assert guard.knows(user, "right", address)

    assert [0.0] == pauses.waited


def test_failures_are_forgotten_after_a_success_and_after_ten_minutes(
    guard: PasswordGuard, pauses: Pauses, passwords: Passwords, clock: ManualClock
) -> None:
    guard.knows("alice", "wrong", "10.0.0.1")
    assert guard.knows("alice", "right", "10.0.0.1")
    passwords.proved.clear()
    guard.knows("bob", "wrong", "10.0.0.1")
    clock.advance(601.0)
    pauses.waited.clear()

    assert guard.knows("alice", "right", "10.0.0.1")
    assert guard.knows("bob", "right", "10.0.0.1")

    assert [0.0, 0.0] == pauses.waited


def test_a_user_that_was_proved_before_needs_no_check(guard: PasswordGuard, passwords: Passwords, pauses: Pauses) -> None:
    assert guard.knows("alice", "right", "10.0.0.1")
    guard.knows("mallory", "wrong", "10.0.0.1")
    pauses.waited.clear()

    assert guard.knows("alice", "right", "10.0.0.1")

    assert 2 == passwords.checks
    assert [] == pauses.waited


def test_one_password_is_checked_at_a_time(guard: PasswordGuard, passwords: Passwords) -> None:
    guesses = [threading.Thread(target=guard.knows, args=(f"user{n}", "wrong", f"10.0.0.{n % 4}")) for n in range(16)]
    for guess in guesses:
        guess.start()
    for guess in guesses:
        guess.join()

    assert 16 == passwords.checks
    assert 1 == passwords.most_at_once


def test_a_user_of_the_file_is_proved_again_until_its_password_changes_or_it_is_removed(tmp_path: Path) -> None:
    users = UsersFile(tmp_path / "users.json", salt=bytes, cost=2)
    users.set("alice", SECRET)
    assert not users.knows_again("alice", SECRET)
    assert users.knows("alice", SECRET)

    assert users.knows_again("alice", SECRET)
    assert not users.knows_again("alice", "wrong")
    users.set("alice", "another")
    assert not users.knows_again("alice", SECRET)
    users.set("alice", SECRET)
    assert users.knows_again("alice", SECRET)
    users.remove("alice")
    assert not users.knows_again("alice", SECRET)
