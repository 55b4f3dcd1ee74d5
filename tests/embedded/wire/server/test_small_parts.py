"""Small parts of a server: its places for connections, its complaints about peers, parts of answers, and its file of users."""

import logging
import stat
from pathlib import Path

import msgspec
import pytest

from mqflow.embedded.wire.protocol.requests import Exchanged
from mqflow.embedded.wire.server.answer_parts import AnswerParts
from mqflow.embedded.wire.server.complaints import Complaints
from mqflow.embedded.wire.server.listener import CONNECTIONS_MAX, Room
from mqflow.embedded.wire.server.users_file import UserPassword, UsersFile, why_no_user
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.verbs import Got
from mqflow.world import World
from tests.conformance.under_test import ManualClock


def test_a_place_is_given_as_often_as_there_are_places_and_again_when_it_is_given_back() -> None:
    room = Room(2)

    assert [True, True, False, False] == [room.take() for _ in range(4)]
    room.give_back()
    assert [True, False] == [room.take(), room.take()]
    assert (2, 2_048, False) == (room.connections_max, Room().connections_max, Room(0).take())
    assert CONNECTIONS_MAX == Room().connections_max


def complained(caplog: pytest.LogCaptureFixture, complain: Complaints, *times: str) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, "mqflow"):
        for sentence in times:
            complain(sentence)
    return [record.getMessage() for record in caplog.records]


def test_ten_complaints_a_minute_are_logged_and_all_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    complain = Complaints(World(clock))

    first = complained(caplog, complain, *(["A peer errs."] * 12))
    clock.advance(59.9)
    same_minute = complained(caplog, complain, "Again.")
    clock.advance(0.2)
    next_minute = complained(caplog, complain, "Later.", "And later.")
    clock.advance(60.0)
    third = complained(caplog, complain, *(["Now."] * 11))

    assert [f"A peer errs. This is number {number} since the start." for number in range(1, 11)] == first
    assert [] == same_minute
    left_out = "Later. (3 more lines of this kind were left out before.) This is number 14 since the start."
    assert [left_out, "And later. This is number 15 since the start."] == next_minute
    assert [f"Now. This is number {number} since the start." for number in range(16, 26)] == third
    assert 26 == complain.count


def test_the_log_gets_a_sentence_later_that_it_must_have_only_once_if_the_limit_left_it_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    complain = Complaints(World(clock))
    complained(caplog, complain, *(["A peer errs."] * 10))
    complain.once("XA is not served.")
    clock.advance(60.0)
    caplog.clear()

    for _ in range(2):
        complain.once("XA is not served.")

    said = "XA is not served. (1 more lines of this kind were left out before.) This is number 12 since the start."
    assert [said] == caplog.messages


def test_a_minute_that_lasts_exactly_so_long_is_over(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    clock.now_s = 0.0
    complain = Complaints(World(clock))
    complained(caplog, complain, *(["A peer errs."] * 10))
    clock.now_s = 60.0

    assert ["Again. This is number 11 since the start."] == complained(caplog, complain, "Again.")


@pytest.mark.parametrize(
    ("user", "why"),
    [
        ("u", ""),
        ("u" * 12, ""),
        ("", "A user has a name"),
        ("u" * 13, f"'{'u' * 13}' has 13 characters, and a user identifier of MQ (MQMD.UserIdentifier) at most 12"),
    ],
)
def test_a_user_has_a_name_that_mq_has_room_for(user: str, why: str) -> None:
    assert why == why_no_user(user)


@pytest.fixture
def users(tmp_path: Path) -> UsersFile:
    numbers = iter(range(1, 100))
    made = UsersFile(tmp_path / "users.json", lambda length: bytes([next(numbers)]) * length)
    made.set("bob", "secret")
    made.set("alice", "other", administrator=True)
    return made


def test_a_password_is_stored_as_a_hash_with_its_salt_that_only_the_owner_reads(users: UsersFile, tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    found = msgspec.json.decode(path.read_bytes(), type=dict[str, UserPassword])

    assert ("alice", "bob") == users.names()
    assert [(b"\3" * 16, 16_384, True), (b"\2" * 16, 16_384, False)] == [
        (found[name].salt, found[name].cost, found[name].administrator) for name in users.names()
    ]
    assert b"secret" not in path.read_bytes()
    assert ([path], 0o600) == (list(tmp_path.iterdir()), stat.S_IMODE(path.stat().st_mode))
    with pytest.raises(ValueError, match="A user has a name"):
        users.set("", "secret")


def test_the_password_of_a_user_is_known_again_while_the_user_has_it(users: UsersFile) -> None:
    assert not users.knows_again("bob", "secret")
    assert [True, False, False, False] == [
        users.knows(*login) for login in (("bob", "secret"), ("bob", "other"), ("alice", "secret"), ("eve", ""))
    ]
    assert [True, False, False] == [
        users.knows_again(*login) for login in (("bob", "secret"), ("bob", "other"), ("alice", "other"))
    ]

    users.set("bob", "new")

    assert [False, False] == [users.knows_again("bob", "secret"), users.knows_again("bob", "new")]
    users.remove("bob")
    assert not users.knows_again("bob", "secret")


def test_the_removal_of_a_user_and_the_rank_of_administrators(users: UsersFile) -> None:
    assert [True, False, False] == [users.administers(name) for name in ("alice", "bob", "eve")]
    assert [True, False, False] == [users.remove("alice"), users.remove("alice"), users.remove("eve")]
    assert (("bob",), False) == (users.names(), users.administers("alice"))


def test_without_a_file_there_is_no_user(tmp_path: Path) -> None:
    assert () == UsersFile(tmp_path / "users.json", bytes).names()


@pytest.mark.parametrize(("messages", "sent"), [(1, []), (16, []), (17, [16]), (33, [16, 16])])
def test_a_unit_of_short_messages_is_sent_in_as_few_parts_as_hold_it(messages: int, sent: list[int]) -> None:
    unit = [Got(descriptor=MessageDescriptor(), body=b"", data_bytes=0)] * messages
    parts: list[int] = []

    def send(part: Exchanged) -> int:
        parts.append(len(part.unit))
        return 1

    last = AnswerParts().send_all_but_last(unit, send)

    assert (sent, messages - sum(sent)) == (parts, len(last.unit))
