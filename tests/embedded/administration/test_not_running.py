"""The commands about message channels, services and clusters, none of which run here, by MQSC and PCF, in memory and served."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.mqsc import Verdict, run
from mqflow.embedded.mqsc.vocabulary import VERBS
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.pcf.codes import CommandCode, PCFReason
from mqflow.mqi.pcf.structures import CFIN, CFST, Parameter
from mqflow.mqi.reason_codes import Reason
from tests.embedded.administration.commanding import Commander
from tests.embedded.disk_faults.disk import memory_folder

OBJECTS = """
DEFINE CHANNEL(OUT) CHLTYPE(SDR) CONNAME('other(1414)') XMITQ(OTHER)
DEFINE CHANNEL(IN) CHLTYPE(RCVR)
DEFINE CHANNEL(APP) CHLTYPE(SVRCONN)
DEFINE SERVICE(CLEANER) STARTCMD('/bin/false')
"""
NO_CLUSTER = int(PCFReason.ATTR_VALUE_ERROR)
NOT_HERE = int(Reason.FUNCTION_NOT_SUPPORTED)
CHANNEL, SEQUENCE_NUMBER, IN_DOUBT, SERVICE, CLUSTER, CLUSTERS, REFRESHED = 3501, 1514, 1516, 2077, 2029, 2030, 1078

# The command of MQSC, the equal command of PCF, and the reason: 0 for a command that succeeds.
COMMANDS: list[tuple[str, tuple[CommandCode, *tuple[Parameter, ...]], int]] = [
    ("PING CHANNEL(OUT) DATALEN(64)", (CommandCode.PING_CHANNEL, CFST(CHANNEL, "OUT"), CFIN(1512, 64)), NOT_HERE),
    ("PING CHL(IN)", (CommandCode.PING_CHANNEL, CFST(CHANNEL, "IN")), PCFReason.WRONG_CHANNEL_TYPE),
    ("PING CHANNEL(APP)", (CommandCode.PING_CHANNEL, CFST(CHANNEL, "APP")), PCFReason.WRONG_CHANNEL_TYPE),
    ("PING CHANNEL(NONE)", (CommandCode.PING_CHANNEL, CFST(CHANNEL, "NONE")), PCFReason.CHANNEL_NOT_FOUND),
    ("PURGE CHANNEL(OUT)", (CommandCode.PURGE_CHANNEL, CFST(CHANNEL, "OUT")), PCFReason.WRONG_CHANNEL_TYPE),
    ("RESET CHANNEL(IN)", (CommandCode.RESET_CHANNEL, CFST(CHANNEL, "IN")), 0),
    ("RESET CHANNEL(OUT) SEQNUM(1)", (CommandCode.RESET_CHANNEL, CFST(CHANNEL, "OUT"), CFIN(SEQUENCE_NUMBER, 1)), 0),
    ("RESET CHANNEL(OUT) SEQNUM(2)", (CommandCode.RESET_CHANNEL, CFST(CHANNEL, "OUT"), CFIN(SEQUENCE_NUMBER, 2)), NOT_HERE),
    ("RESET CHANNEL(APP)", (CommandCode.RESET_CHANNEL, CFST(CHANNEL, "APP")), PCFReason.WRONG_CHANNEL_TYPE),
    ("RES CHL(OUT) ACTION(COMMIT)", (CommandCode.RESOLVE_CHANNEL, CFST(CHANNEL, "OUT"), CFIN(IN_DOUBT, 1)), 0),
    ("RESOLVE CHANNEL(IN) ACTION(BACKOUT)", (CommandCode.RESOLVE_CHANNEL, CFST(CHANNEL, "IN"), CFIN(IN_DOUBT, 2)),
     PCFReason.WRONG_CHANNEL_TYPE),
    ("START SERVICE(CLEANER)", (CommandCode.START_SERVICE, CFST(SERVICE, "CLEANER")), NOT_HERE),
    ("STA SERVICE(NONE)", (CommandCode.START_SERVICE, CFST(SERVICE, "NONE")), Reason.UNKNOWN_OBJECT_NAME),
    ("STOP SERVICE(CLEANER)", (CommandCode.STOP_SERVICE, CFST(SERVICE, "CLEANER")), PCFReason.SERVICE_STOPPED),
    ("STOP SERVICE(NONE)", (CommandCode.STOP_SERVICE, CFST(SERVICE, "NONE")), Reason.UNKNOWN_OBJECT_NAME),
    ("REFRESH CLUSTER(*) REPOS(YES)", (CommandCode.REFRESH_CLUSTER, CFST(CLUSTER, "*"), CFIN(1095, 1)), 0),
    ("REF CLUSTER(DEMO)", (CommandCode.REFRESH_CLUSTER, CFST(CLUSTER, "DEMO")), NO_CLUSTER),
    ("RESET CLUSTER(DEMO) ACTION(FORCEREMOVE) QMNAME(QM2)",
     (CommandCode.RESET_CLUSTER, CFST(CLUSTER, "DEMO"), CFST(2015, "QM2"), CFIN(1086, 1)), NO_CLUSTER),
    ("SUSPEND QMGR CLUSTER(DEMO) MODE(FORCE)", (CommandCode.SUSPEND_Q_MGR_CLUSTER, CFST(CLUSTER, "DEMO"), CFIN(1008, 0)),
     NO_CLUSTER),
    ("RESUME QMGR CLUSNL(DEMOS)", (CommandCode.RESUME_Q_MGR_CLUSTER, CFST(CLUSTERS, "DEMOS")), NO_CLUSTER),
    ("REFRESH QMGR TYPE(PROXYSUB)", (CommandCode.REFRESH_Q_MGR, CFIN(REFRESHED, 4)), 0),
    ("REFRESH QMGR TYPE(CONFIGEV)", (CommandCode.REFRESH_Q_MGR, CFIN(REFRESHED, 1)), PCFReason.EVENTS_DISABLED),
]  # fmt: skip


@pytest.fixture(scope="module")
def queue_manager() -> Iterator[EmbeddedQueueManager]:
    with EmbeddedQueueManager("QM1") as made:
        assert 0 == run(OBJECTS, made.administration).exit_code()
        yield made


def reasons(administration: Administration) -> dict[str, int]:
    responses = run("\n".join(command for command, _, _ in COMMANDS), administration).responses
    assert {Verdict.DONE, Verdict.FAILED} == {each.verdict for each in responses}
    return {command: each.reason for (command, _, _), each in zip(COMMANDS, responses, strict=True)}


def test_each_command_of_mqsc_succeeds_if_its_effect_is_true_already(queue_manager: EmbeddedQueueManager) -> None:
    expected = {command: int(reason) for command, _, reason in COMMANDS}

    assert expected == reasons(queue_manager.administration)
    with memory_folder() as folder, closing(serve(queue_manager, Path(folder) / "s")) as server:
        assert expected == reasons(ServedQueueManager(server.path).administration)


def test_each_command_of_pcf_gets_the_reason_of_the_command_of_mqsc(queue_manager: EmbeddedQueueManager) -> None:
    with Commander(queue_manager) as commander:
        answered = {command: commander.command(*sent)[0].header.reason for command, sent, _ in COMMANDS}

    assert {command: int(reason) for command, _, reason in COMMANDS} == answered


def test_a_refresh_of_configuration_events_is_refused_also_while_they_are_enabled(queue_manager: EmbeddedQueueManager) -> None:
    script = "ALTER QMGR CONFIGEV(ENABLED)\nREFRESH QMGR TYPE(CONFIGEV)\nALTER QMGR CONFIGEV(DISABLED)"

    assert [0, NOT_HERE, 0] == [each.reason for each in run(script, queue_manager.administration).responses]


@pytest.mark.parametrize(
    "command",
    [
        "RESET CHANNEL(OUT) SEQNUM(0)",
        "RESOLVE CHANNEL(OUT)",
        "RESET CLUSTER(DEMO)",
        "SUSPEND QMGR",
        "RESUME QMGR CLUSTER(A) CLUSNL(B)",
        "RESUME QMGR CLUSTER(A) MODE(FORCE)",
        "REFRESH QMGR",
        "REFRESH QMGR TYPE(EARLY)",
    ],
)
def test_a_command_without_its_words_is_a_syntax_error(queue_manager: EmbeddedQueueManager, command: str) -> None:
    assert [Verdict.SYNTAX_ERROR] == [each.verdict for each in run(command, queue_manager.administration).responses]


def test_at_most_twelve_pairs_of_words_are_refused_by_name() -> None:
    assert 10 == sum(len(nouns) for nouns in VERBS.values())
