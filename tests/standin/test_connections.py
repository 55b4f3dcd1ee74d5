"""Connections through the stand-in library: the options of an application arrive, and threads share handles by the rules.

Source: IBM, "Shared (thread independent) connections with MQCONNX"; rc2002, rc2018, rc2219.
"""

import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from mqflow.standin import install
from tests.standin.harness import Program

pytestmark = pytest.mark.xdist_group("standin")


def _said(values: Mapping[str, int | str | bytes], *names: str) -> tuple[object, ...]:
    return tuple(value.rstrip(b"\0") if isinstance(value, bytes) else value for value in map(values.__getitem__, names))


def test_another_queue_manager_is_not_known(program: Program) -> None:
    manager = program.mq.QueueManager(None)

    program.refused(program.c.MQRC_Q_MGR_NAME_ERROR, lambda: manager.connect_with_options(b"QM2"))


def test_a_connection_that_shares_no_handles_belongs_to_its_thread(program: Program) -> None:
    manager = program.connect_alone()
    reasons: list[int] = []

    def elsewhere() -> None:
        reasons.append(program.refused(program.c.MQRC_HCONN_ERROR, manager.commit).reason)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()

    assert [program.c.MQRC_HCONN_ERROR] == reasons
    manager.commit()


def test_a_shared_connection_waits_for_the_call_of_another_thread(program: Program) -> None:
    queue, c = program.open(), program.c
    gmo = program.gmo(c.MQGMO_WAIT, WaitInterval=30_000)
    got: list[bytes] = []
    waiting = threading.Thread(target=lambda: got.append(queue.get(None, program.md(), gmo)))
    waiting.start()

    program.open(manager=program.other).put(b"at last")
    waiting.join()
    program.manager.commit()

    assert [b"at last"] == got


def test_user_and_password_reach_the_library(program: Program) -> None:
    program.connect(user="alice", password="secret")  # noqa: S106 - of nobody

    asked = program.kit.requests[-1]
    assert ("alice", b"secret") == (asked.user, asked.security["CSPPassword"])
    assert "secret" not in repr(asked)


def test_the_fields_of_the_channel_reach_the_library(program: Program) -> None:
    channel = {"ChannelName": b"TLS.SVRCONN", "SSLCipherSpec": b"ANY_TLS12_OR_HIGHER"}

    program.connect(channel=channel, sco=program.mq.SCO(KeyRepository=b"/keys/app", CertificateLabel=b"app"))

    asked = program.kit.requests[-1]
    assert (b"TLS.SVRCONN", b"ANY_TLS12_OR_HIGHER") == _said(asked.channel, "ChannelName", "SSLCipherSpec")
    assert (b"/keys/app", b"app") == _said(asked.tls, "KeyRepository", "CertificateLabel")


def test_a_channel_with_tls_refuses_a_program_without_it_or_without_a_certificate(program: Program) -> None:
    mq, c = program.mq, program.c
    program.kit.mqsc("DEFINE CHANNEL(TLS.SVRCONN) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12) SSLCAUTH(REQUIRED)")

    def connected(cipher: bytes = b"", label: bytes = b"") -> Any:
        sco = mq.SCO(KeyRepository=b"/keys/app", CertificateLabel=label)
        return program.connect(channel={"ChannelName": b"TLS.SVRCONN", "SSLCipherSpec": cipher}, sco=sco)

    program.refused(c.MQRC_SSL_INITIALIZATION_ERROR, connected)
    program.refused(c.MQRC_SSL_INITIALIZATION_ERROR, lambda: connected(b"ANY_TLS12"))
    first = connected(b"ANY_TLS12", b"app")
    warning = program.refused(c.MQRC_SSL_ALREADY_INITIALIZED, lambda: connected(b"ANY_TLS12", b"other"))
    first.disconnect()

    assert c.MQCC_WARNING == warning.comp


def test_every_call_says_that_the_queue_manager_has_stopped(program: Program) -> None:
    queue, c = program.open(), program.c
    program.kit.queue_manager.stop()

    for call in (queue.get, program.manager.commit, program.manager.backout):
        program.refused(c.MQRC_Q_MGR_STOPPING, call)
    program.refused(c.MQRC_Q_MGR_NOT_AVAILABLE, program.connect)


def test_a_thread_has_one_connection_that_shares_no_handles(program: Program) -> None:
    first = program.connect_alone()

    error = program.refused(program.c.MQRC_ALREADY_CONNECTED, program.connect_alone)

    assert program.c.MQCC_WARNING == error.comp
    first.commit()


def test_a_thread_does_not_inherit_the_connection_of_an_ended_thread(program: Program) -> None:
    kept: list[object] = []

    for _ in range(20):  # the system gives the number of a thread that ended to the next one
        thread = threading.Thread(target=lambda: kept.append(program.connect_alone()))
        thread.start()
        thread.join()

    assert 20 == len(kept)


def test_no_call_of_another_thread_waits_where_blocking_is_not_wanted(program: Program) -> None:
    c = program.c
    manager = program.connect(c.MQCNO_HANDLE_SHARE_NO_BLOCK)
    queue = program.open(manager=manager)
    started, body = threading.Event(), []

    def wait() -> None:
        started.set()
        body.append(queue.get(None, program.md(), program.gmo(c.MQGMO_WAIT, WaitInterval=30_000)))

    waiting = threading.Thread(target=wait)
    waiting.start()
    started.wait()
    reasons: set[int] = set()
    while c.MQRC_CALL_IN_PROGRESS not in reasons:  # until the other thread is inside its call
        try:
            manager.commit()
        except program.mq.MQMIError as error:
            reasons.add(error.reason)
    program.other.put1(b"Q", b"go on")
    waiting.join()

    assert ({c.MQRC_CALL_IN_PROGRESS}, [b"go on"]) == (reasons, body)


def test_a_global_unit_of_work_cannot_be_begun(program: Program) -> None:
    manager, c = program.connect_alone(), program.c

    program.refused(c.MQRC_ENVIRONMENT_ERROR if program.is_pymqi else c.MQRC_NO_EXTERNAL_PARTICIPANTS, manager.begin)


def test_threads_with_a_handle_each_get_every_message_once(program: Program) -> None:
    queue, c = program.open(), program.c
    sent = [b"%d" % number for number in range(400)]
    for body in sent:
        queue.put(body)
    got: list[bytes] = []

    def consume() -> None:
        own = program.open(c.MQOO_INPUT_SHARED, manager=program.connect())
        while program.depth():
            try:
                got.append(own.get(None, program.md(), program.gmo(c.MQGMO_NO_SYNCPOINT)))
            except program.mq.MQMIError as error:
                if error.reason != c.MQRC_NO_MSG_AVAILABLE:
                    raise

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(sent) == sorted(got)


def test_a_defect_of_the_library_itself_is_2195(program: Program) -> None:
    def fail(request: object) -> None:
        raise ZeroDivisionError

    with install(program.kit.queue_manager, on_connect=fail):
        program.refused(program.c.MQRC_UNEXPECTED_ERROR, program.connect)


def test_a_stand_in_that_was_withdrawn_is_no_queue_manager_any_more(program: Program) -> None:
    with install(program.kit.queue_manager):
        program.connect()

    program.refused(program.c.MQRC_Q_MGR_NOT_AVAILABLE, program.connect)


def test_the_withdrawal_of_a_stand_in_backs_out_its_open_units_of_work(program: Program) -> None:
    pmo = program.mq.PMO(Options=program.c.MQPMO_SYNCPOINT)
    with install(program.kit.queue_manager):
        manager = program.connect()  # kept: losing the last reference would disconnect, and commit
        manager.put1(b"Q", b"in doubt", program.md(), pmo)
        assert 1 == program.depth()

    assert 0 == program.depth()


def test_a_name_that_starts_with_an_asterisk_is_any_queue_manager(program: Program) -> None:
    manager = program.mq.QueueManager(None)

    manager.connect_with_options(b"*GROUP", opts=program.c.MQCNO_HANDLE_SHARE_BLOCK)

    manager.commit()


def test_of_users_that_are_known_the_password_must_be_right(program: Program) -> None:
    """CONNAUTH as IBM's queue managers have it by default: CHCKLOCL(OPTIONAL), CHCKCLNT(REQDADM)."""
    with install(program.kit.queue_manager, users={"alice": "right", "bob": ""}):
        program.connect(user="alice", password="right")  # noqa: S106 - of nobody
        refusals: tuple[dict[str, Any], ...] = (
            {"user": "alice", "password": "wrong"},
            {"user": "alice", "password": ""},
            {"user": "carol", "password": "right"},
            {"user": "carol", "password": ""},
            {},
        )
        for wrong in refusals:
            program.refused(program.c.MQRC_NOT_AUTHORIZED, partial(program.connect, **wrong))


def test_the_authority_records_decide_about_a_user(program: Program) -> None:
    program.kit.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(CONNECT)")
    program.refused(program.c.MQRC_NOT_AUTHORIZED, lambda: program.connect(user="bob", password=""))
    alice = program.connect(user="alice", password="")

    program.refused(program.c.MQRC_NOT_AUTHORIZED, lambda: program.open(program.c.MQOO_OUTPUT, manager=alice))
    program.kit.mqsc("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(PUT)")
    program.open(program.c.MQOO_OUTPUT, manager=alice).put(b"x")

    assert 1 == program.depth()
