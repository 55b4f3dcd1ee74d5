"""Channel authentication records: which record decides about a connection, and the commands that keep the records."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from mqflow.embedded.mqsc import run
from mqflow.embedded.mqsc.display import as_json
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.rules.channel_authentication import (
    Admission,
    ChannelRule,
    Connecting,
    RuleType,
    UserSource,
    address_blocks,
    admission,
    is_address_pattern,
    is_channel_pattern,
)
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.fap.connection_flows import Credentials
from mqflow.mqi.options import OpenOption
from mqflow.mqi.reason_codes import Reason
from tests.embedded.channel.conftest import APP, Dial

ASKING = Connecting(channel="APP.ONE", address="10.1.2.3", user="ann")
NOACCESS, CHANNEL, MAP = UserSource.NOACCESS, UserSource.CHANNEL, UserSource.MAP


def by_address(address: str, source: UserSource, user: str = "", profile: str = "APP.ONE") -> ChannelRule:
    return ChannelRule(profile=profile, type=RuleType.ADDRESSMAP, address=address, source=source, mca_user=user)


def by_user(client_user: str, source: UserSource, user: str = "", address: str = "", profile: str = "APP.ONE") -> ChannelRule:
    return ChannelRule(
        profile=profile, type=RuleType.USERMAP, client_user=client_user, address=address, source=source, mca_user=user
    )


def blocking(*users: str, profile: str = "*") -> ChannelRule:
    return ChannelRule(profile=profile, type=RuleType.BLOCKUSER, blocked=users)


def is_root(user: str) -> bool:
    return user == "root"


ANY_BLOCKED = by_address("*", NOACCESS, profile="*")
DECISIONS = [
    # Each row: the sentence of the source, the records, and the user of the connection; None if it is blocked.
    ("q010250: no matching record: the user of the channel", [], "ann"),
    ("SET CHLAUTH, NOACCESS: the user has no access to the queue manager", [ANY_BLOCKED], None),
    ("SET CHLAUTH, MAP: the mapped user is used", [by_address("*", MAP, "ops")], "ops"),
    ("SET CHLAUTH, CHANNEL: the flowed user, or the user of the channel object", [by_address("*", CHANNEL)], "ann"),
    ("a record of another channel does not count", [by_address("*", NOACCESS, profile="APP.TWO")], "ann"),
    ("a record of another address does not count", [by_address("10.1.2.4", NOACCESS)], "ann"),
    ("a record of another user does not count", [by_user("bob", NOACCESS)], "ann"),
    ("ADDRESS restricts a USERMAP", [by_user("ann", NOACCESS, address="10.9.*")], "ann"),
    (
        "q010250: a record of the channel's name before one with a wildcard",
        [by_user("ann", NOACCESS, profile="APP.*"), by_address("*", CHANNEL)],
        "ann",
    ),
    ("q010250: a user before an address", [by_address("10.1.2.3", NOACCESS), by_user("ann", MAP, "ops")], "ops"),
    ("an address before a pattern", [by_address("10.1.*", NOACCESS), by_address("10.1.2.3", MAP, "ops")], "ops"),
    ("an address before a range", [by_address("10.1.2.1-9", NOACCESS), by_address("10.1.2.3", MAP, "ops")], "ops"),
    ("a range before an asterisk", [by_address("10.1.2.*", NOACCESS), by_address("10.1.2.1-9", MAP, "ops")], "ops"),
    ("a longer pattern before a shorter", [by_address("10.*", NOACCESS), by_address("10.1.*", MAP, "ops")], "ops"),
    ("a longer name with a wildcard before a shorter", [ANY_BLOCKED, by_address("*", CHANNEL, profile="APP.*")], "ann"),
    (
        "asterisks do not count for the length of a name",
        [by_address("*", NOACCESS, profile="*A*P*"), by_address("*", CHANNEL, profile="APP.*")],
        "ann",
    ),
    (
        "a USERMAP with ADDRESS before one without",
        [by_user("ann", NOACCESS), by_user("ann", MAP, "ops", address="10.1.2.3")],
        "ops",
    ),
    ("SET CHLAUTH, BLOCKUSER: prevents the users of its list", [blocking("bob", "ann")], None),
    ("q013810: BLOCKUSER counts for the user after the mapping", [by_address("*", MAP, "bob"), blocking("bob")], None),
    ("and not for the user before the mapping", [by_address("*", MAP, "ops"), blocking("ann")], "ops"),
    ("SET CHLAUTH: *MQADMIN is every privileged user", [by_address("*", MAP, "root"), blocking("*MQADMIN")], None),
    ("and no other user", [blocking("*MQADMIN")], "ann"),
    ("the most specific BLOCKUSER alone counts", [blocking("ann"), blocking("nobody", profile="APP.ONE")], "ann"),
]


@pytest.mark.parametrize(("source", "rules", "user"), DECISIONS, ids=[source for source, _, _ in DECISIONS])
def test_the_records_decide(source: str, rules: list[ChannelRule], user: str | None) -> None:
    for order in (rules, rules[::-1]):  # the order in which they were set does not count
        decided = admission(order, ASKING, is_root)

        assert (user is None) == (decided.blocked_by is not None), source
        assert user in {None, decided.user}


@pytest.mark.parametrize(
    ("address", "blocks"), [("10.1.2.3", True), ("::ffff:10.1.2.3", True), ("10.9.0.1", True), ("10.1.2.4", False)]
)
def test_a_blockaddr_record_blocks_the_addresses_of_its_list(address: str, *, blocks: bool) -> None:
    rule = ChannelRule(profile="*", type=RuleType.BLOCKADDR, blocked=("10.9.*", "10.1.2.3"))

    assert (rule if blocks else None) == address_blocks([ANY_BLOCKED, blocking("ann"), rule], address)
    assert Admission(user="ann") == admission([rule], ASKING, is_root)  # it counts only before a program has said anything


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        (by_user("ann", MAP, "ops", address="10.*"), "TYPE(USERMAP) CLNTUSER('ann') ADDRESS('10.*') USERSRC(MAP)"),
        (blocking("ann", "bob", profile="APP.ONE"), "TYPE(BLOCKUSER) USERLIST('ann','bob')"),
    ],
)
def test_a_record_is_named_by_its_command(rule: ChannelRule, command: str) -> None:
    assert f"SET CHLAUTH('APP.ONE') {command}" == rule.command


def test_mcauser_of_the_channel_counts_without_a_mapping_and_with_usersrc_channel() -> None:
    asking = Connecting(channel="APP.ONE", address="10.1.2.3", user="ann", mca_user="worker")

    assert "worker" == admission([], asking, is_root).user
    assert "worker" == admission([by_address("*", CHANNEL)], asking, is_root).user
    assert "ops" == admission([by_address("*", MAP, "ops")], asking, is_root).user  # q082010: the records take precedence


def test_a_record_with_warn_lets_the_program_in_and_is_named() -> None:
    mapped, blocked = replace(ANY_BLOCKED, warn=True), replace(blocking("ann"), warn=True)

    assert Admission(user="ann", mapping=mapped, warnings=(mapped, blocked)) == admission([mapped, blocked], ASKING, is_root)


@pytest.mark.parametrize(
    ("pattern", "address", "fits"),
    [
        ("192.0.2.0", "192.0.2.0", True),
        ("192.0.2.*", "192.0.2.255", True),
        ("192.0.*", "192.0.2.1", True),
        ("192.0.*", "192.1.2.1", False),
        ("192.0.*.2", "192.0.9.2", True),
        ("192.*.2", "192.0.9.2", True),
        ("192.*.2", "192.0.2.9", False),
        ("192.0.2.1-8", "192.0.2.8", True),
        ("192.0.2.1-8", "192.0.2.9", False),
        ("192.0.*.1-8", "192.0.7.3", True),
        ("2001:DB8:0:0:0:0:0:0", "2001:db8::", True),
        ("2001:*:FFFF", "2001:db8::ffff", True),
        ("2001:DB8:0:0:0:*", "2001:db8::7:1", True),
        ("2001:*:1", "2001:db8::1", True),
        ("2001:*:1", "2001:db8::2", False),
        ("2001:DB8:0:0:0:0:0:0-8", "2001:db8::8", True),
        ("2001:DB8:0:0:0:*:0:0-8", "2001:db8::5:0:9", False),
        ("192.0.2.*", "::ffff:192.0.2.7", True),
        ("::ffff:192.0.2.7", "192.0.2.7", True),
        ("::ffff:192.0.2.7", "::ffff:192.0.2.7", True),
        ("::ffff:192.0.2.7", "192.0.2.8", False),
        ("*", "an unknown address", True),
        ("10.*", "an unknown address", False),
    ],
)
def test_an_address_fits_the_patterns_that_ibm_lists(pattern: str, address: str, *, fits: bool) -> None:
    assert is_address_pattern(pattern)
    decided = admission([by_address(pattern, NOACCESS)], Connecting(channel="APP.ONE", address=address, user="ann"), is_root)

    assert fits == (decided.blocked_by is not None)


@pytest.mark.parametrize(
    "text",
    ["", "192.0.2", "192.0.2.256", "192.0.2.8-1", "192.0.2.1-0", "192.0.2.x", "1.2.3.4.5", "1.2.3.+4", "host", "-",
     "192.0.2.\N{FULLWIDTH DIGIT SEVEN}", "192.0.\N{ARABIC-INDIC DIGIT TWO}.*", "192.0.2.1-\N{FULLWIDTH DIGIT EIGHT}",
     "2001:*:\N{FULLWIDTH DIGIT ONE}", "192.0." + "9" * 5_000 + ".*"],
)  # fmt: skip
def test_no_pattern_of_an_address(text: str) -> None:
    assert not is_address_pattern(text)


@pytest.mark.parametrize("text", ["", "A" * 21, "A B", "A?"])
def test_no_pattern_of_a_channel(text: str) -> None:
    assert not is_channel_pattern(text)


# -- commands

REFUSED = {
    "a second mapping of a partner": ("SET CHLAUTH(A) TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(CHANNEL)", 3337),
    "a mapping to nobody": ("SET CHLAUTH(B) TYPE(ADDRESSMAP) ADDRESS('*')", Reason.ITEM_VALUE_ERROR),
    "a user that would be cut": (
        "SET CHLAUTH(B) TYPE(ADDRESSMAP) ADDRESS('*') MCAUSER('thirteenchars')",
        Reason.ITEM_VALUE_ERROR,
    ),
    "a map without an address": ("SET CHLAUTH(B) TYPE(ADDRESSMAP) MCAUSER('x')", Reason.ITEM_VALUE_ERROR),
    "a map without a user": ("SET CHLAUTH(B) TYPE(USERMAP) MCAUSER('x')", Reason.ITEM_VALUE_ERROR),
    "a list without addresses": ("SET CHLAUTH('*') TYPE(BLOCKADDR)", Reason.ITEM_VALUE_ERROR),
    "a list with a host": ("SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('10.1.2.3', 'a.example')", Reason.ITEM_VALUE_ERROR),
    "addresses of one channel": ("SET CHLAUTH(B) TYPE(BLOCKADDR) ADDRLIST('10.1.2.3')", Reason.ITEM_VALUE_ERROR),
    "removing an address that is not listed": ("SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('10.9.*') ACTION(REMOVE)", 3338),
    "a list for one address": ("SET CHLAUTH(B) TYPE(BLOCKUSER) USERLIST('x') ADDRESS('10.1.2.3')", Reason.ITEM_VALUE_ERROR),
    "a list without users": ("SET CHLAUTH(B) TYPE(BLOCKUSER)", Reason.ITEM_VALUE_ERROR),
    "a host name": ("SET CHLAUTH(B) TYPE(ADDRESSMAP) ADDRESS('a.example') USERSRC(NOACCESS)", Reason.ITEM_VALUE_ERROR),
    "removing what is not there": ("SET CHLAUTH(B) TYPE(USERMAP) CLNTUSER('x') ACTION(REMOVE)", 3338),
    "removing all of none": ("SET CHLAUTH(B) TYPE(USERMAP) ACTION(REMOVEALL)", 3338),
    "removing a user that is not listed": ("SET CHLAUTH(A) TYPE(BLOCKUSER) USERLIST('z') ACTION(REMOVE)", 3338),
    "showing what is not there": ("DISPLAY CHLAUTH(B)", 3338),
}
RULES = """
SET CHLAUTH(A) TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(NOACCESS) DESCR('nobody')
SET CHLAUTH(A) TYPE(BLOCKUSER) USERLIST('x', 'y')
SET CHLAUTH(A) TYPE(BLOCKUSER) USERLIST('y', 'z')
SET CHLAUTH(A) TYPE(BLOCKUSER) USERLIST('x', 'z') ACTION(REMOVE)
SET CHLAUTH(A) TYPE(USERMAP) CLNTUSER('u') MCAUSER('v')
SET CHLAUTH(A) TYPE(USERMAP) CLNTUSER('u') MCAUSER('w') ACTION(REPLACE)
"""
ADDRESSES = """
SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('10.1.2.3', '10.2.*') WARN(YES)
SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('10.3.0.1-9', '10.2.*')
SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('10.1.2.3') ACTION(REMOVE)
"""


@pytest.mark.parametrize(("command", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_command_about_records_is_refused(queue_manager: EmbeddedQueueManager, command: str, reason: int) -> None:
    assert 0 == run(RULES + ADDRESSES, queue_manager.administration).exit_code()

    assert [reason] == [response.reason for response in run(command, queue_manager.administration).responses]


def test_records_survive_a_restart_of_the_queue_manager_and_its_removals(tmp_path: Path) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path)) as queue_manager:
        assert 0 == run(RULES + ADDRESSES, queue_manager.administration).exit_code()
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path)) as queue_manager:
        shown = (
            run("DISPLAY CHLAUTH(*) USERLIST ADDRLIST MCAUSER USERSRC DESCR", queue_manager.administration).responses[0].records
        )
        run("SET CHLAUTH(A) TYPE(USERMAP) ACTION(REMOVEALL)", queue_manager.administration)
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path)) as queue_manager:
        left = [rule.type for rule in queue_manager.administration.channels.rules()]

    plain = {"CHLAUTH": "A", "USERLIST": "", "ADDRLIST": "", "MCAUSER": "", "DESCR": ""}
    assert [
        {**plain, "CHLAUTH": "*", "TYPE": "BLOCKADDR", "USERSRC": "", "ADDRLIST": "10.2.*,10.3.0.1-9"},
        {**plain, "TYPE": "ADDRESSMAP", "USERSRC": "NOACCESS", "DESCR": "nobody"},
        {**plain, "TYPE": "BLOCKUSER", "USERSRC": "", "USERLIST": "y"},
        {**plain, "TYPE": "USERMAP", "USERSRC": "MAP", "MCAUSER": "w"},
    ] == [as_json(record) for record in shown]
    assert [RuleType.BLOCKADDR, RuleType.ADDRESSMAP, RuleType.BLOCKUSER] == left


@pytest.mark.parametrize(
    ("choice", "profiles"),
    [("TYPE(BLOCKUSER)", ["A", "B"]), ("WHERE(WARN EQ YES)", ["B", "C"]), ("TYPE(BLOCKUSER) WHERE(WARN EQ YES)", ["B"])],
)
def test_type_and_where_choose_records_together(queue_manager: EmbeddedQueueManager, choice: str, profiles: list[str]) -> None:
    script = """
    SET CHLAUTH('A') TYPE(BLOCKUSER) USERLIST('x')
    SET CHLAUTH('B') TYPE(BLOCKUSER) USERLIST('x') WARN(YES)
    SET CHLAUTH('C') TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(NOACCESS) WARN(YES)
    """
    assert 0 == run(script, queue_manager.administration).exit_code()

    [response] = run(f"DISPLAY CHLAUTH(*) {choice}", queue_manager.administration).responses

    assert profiles == [record.cells[0].word for record in response.records]


def test_match_runcheck_shows_the_record_that_decides(queue_manager: EmbeddedQueueManager) -> None:
    script = """
    DEFINE CHANNEL(APP) CHLTYPE(SVRCONN) MCAUSER('worker')
    SET CHLAUTH('*') TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(NOACCESS)
    SET CHLAUTH('APP') TYPE(ADDRESSMAP) ADDRESS('10.*') USERSRC(CHANNEL)
    SET CHLAUTH('APP') TYPE(USERMAP) CLNTUSER('ann') MCAUSER('bob')
    SET CHLAUTH('*') TYPE(BLOCKUSER) USERLIST('worker')
    """
    assert 0 == run(script, queue_manager.administration).exit_code()

    def decides(address: str, user: str, rest: str = "WARN") -> dict[str, object] | int:
        command = f"DISPLAY CHLAUTH(APP) MATCH(RUNCHECK) ADDRESS('{address}') CLNTUSER('{user}') {rest}"
        [response] = run(command, queue_manager.administration).responses
        return response.reason or dict(as_json(response.records[0]))

    assert {"CHLAUTH": "*", "TYPE": "ADDRESSMAP", "WARN": "NO"} == decides("11.0.0.1", "cid")
    assert {"CHLAUTH": "APP", "TYPE": "USERMAP", "MCAUSER": "bob"} == decides("10.0.0.1", "ann", "MCAUSER")
    assert {"CHLAUTH": "*", "TYPE": "BLOCKUSER", "WARN": "NO"} == decides("10.0.0.1", "cid")
    run("SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('10.0.0.*')", queue_manager.administration)
    assert {"CHLAUTH": "*", "TYPE": "BLOCKADDR", "ADDRLIST": "10.0.0.*"} == decides("10.0.0.1", "ann", "ADDRLIST")
    assert {"CHLAUTH": "APP", "TYPE": "USERMAP", "WARN": "NO"} == decides("10.0.1.1", "ann")
    run("SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('10.0.0.*') WARN(YES) ACTION(REPLACE)", queue_manager.administration)
    assert {"CHLAUTH": "*", "TYPE": "BLOCKUSER", "WARN": "NO"} == decides("10.0.0.1", "cid"), "the warning refuses nobody"
    assert Reason.ITEM_VALUE_ERROR == decides("app.example", "cid")
    run("SET CHLAUTH('*') TYPE(BLOCKADDR) ACTION(REMOVEALL)", queue_manager.administration)
    run("SET CHLAUTH('*') TYPE(ADDRESSMAP) ADDRESS('*') ACTION(REMOVE)", queue_manager.administration)
    run("SET CHLAUTH('*') TYPE(BLOCKUSER) ACTION(REMOVEALL)", queue_manager.administration)
    assert 3338 == decides("11.0.0.1", "cid")


# -- the listener


def test_the_listener_enforces_the_records_and_the_log_names_the_record(
    queue_manager: EmbeddedQueueManager, dial: Dial, caplog: pytest.LogCaptureFixture
) -> None:
    administration = queue_manager.administration
    run("SET CHLAUTH('DEV.*') TYPE(ADDRESSMAP) ADDRESS('127.*') USERSRC(NOACCESS)", administration)
    dial().begin(APP)  # CHLAUTH(DISABLED): no record counts

    run("ALTER QMGR CHLAUTH(ENABLED)", administration)
    client = dial()
    client.negotiate()
    client.log_in(APP)

    assert Reason.NOT_AUTHORIZED == client.connect().reason
    assert "SET CHLAUTH('DEV.*') TYPE(ADDRESSMAP) ADDRESS('127.*') USERSRC(NOACCESS)" in caplog.text
    assert "user 'app' at 127.0.0.1 on channel 'DEV.APP.SVRCONN'" in caplog.text


def test_a_program_at_a_blocked_address_gets_no_answer_to_its_first_bytes(
    queue_manager: EmbeddedQueueManager, dial: Dial, caplog: pytest.LogCaptureFixture
) -> None:
    administration = queue_manager.administration
    run("ALTER QMGR CHLAUTH(ENABLED)\nSET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('127.*') WARN(YES)", administration)
    dial().begin(APP)
    assert "A channel authentication record would block 127.0.0.1, but it has WARN(YES): SET CHLAUTH('*')" in caplog.text

    run("SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('127.*') ACTION(REPLACE)", administration)

    assert dial().receive() is None  # the end of the stream
    assert "record blocks 127.0.0.1: SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('127.*')." in caplog.text


def test_the_listener_maps_users(queue_manager: EmbeddedQueueManager, dial: Dial) -> None:
    commands = "ALTER QMGR CHLAUTH(ENABLED)\nSET CHLAUTH('*') TYPE(USERMAP) CLNTUSER('guest') MCAUSER('app')"
    assert 0 == run(commands, queue_manager.administration).exit_code()

    client = dial().begin(Credentials("guest", "guest"))

    assert 0 == client.open("Q1", OpenOption.OUTPUT).reason
    assert ["app"] == [each.user for each in queue_manager.administration.objects.connections() if each.channel]
