"""SET, DELETE and DISPLAY AUTHREC, DISPLAY ENTAUTH and REFRESH SECURITY, on an embedded queue manager."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqflow.embedded.mqsc import Results, Verdict, run
from mqflow.embedded.mqsc.display import as_json
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.mqi.errors import NotAuthorizedError
from mqflow.mqi.options import OpenOption

CONNECT = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(CONNECT)"


class Desks:
    """The groups of each user, as the test sets them."""

    def __init__(self) -> None:
        self.of: dict[str, frozenset[str]] = {}

    def __call__(self, user: str) -> frozenset[str]:
        return self.of.get(user, frozenset())


@pytest.fixture
def desks() -> Desks:
    return Desks()


@pytest.fixture
def queue_manager(desks: Desks) -> Iterator[EmbeddedQueueManager]:
    with EmbeddedQueueManager("QM1", groups=desks) as made:
        run("DEFINE QLOCAL(ORDERS.IN)", made.administration)
        yield made


def done(queue_manager: EmbeddedQueueManager, script: str) -> Results:
    results = run(script, queue_manager.administration)
    assert 0 == results.exit_code(strict=True), [response.text for response in results.responses]
    return results


def shown(queue_manager: EmbeddedQueueManager, command: str) -> list[dict[str, object]]:
    return [dict(as_json(record)) for response in done(queue_manager, command).responses for record in response.records]


def lists(queue_manager: EmbeddedQueueManager, command: str) -> list[object]:
    return [record["AUTHLIST"] for record in shown(queue_manager, command)]


def test_the_first_record_brings_that_of_the_administrators(queue_manager: EmbeddedQueueManager) -> None:
    done(queue_manager, CONNECT)

    assert [
        {"PROFILE": "SELF", "ENTITY": "app", "ENTTYPE": "PRINCIPAL", "OBJTYPE": "QMGR", "AUTHLIST": "CONNECT"},
        {"PROFILE": "SELF", "ENTITY": "mqm", "ENTTYPE": "GROUP", "OBJTYPE": "QMGR",
         "AUTHLIST": "ALTUSR,CHG,CONNECT,CTRL,DLT,DSP,INQ,SET,SETALL,SETID,SYSTEM"},
    ] == shown(queue_manager, "DISPLAY AUTHREC")  # fmt: skip


@pytest.mark.parametrize(
    ("commands", "held"),
    [
        (["AUTHADD(GET,INQ)"], "GET,INQ"),
        (["AUTHADD(GET INQ)"], "GET,INQ"),
        (["AUTHADD(GET)", "AUTHADD(PUT)"], "GET,PUT"),
        (["AUTHADD(ALLMQI) AUTHRMV(PUT,SET,SETALL,SETID)"], "BROWSE,GET,INQ,PASSALL,PASSID"),
        (["AUTHADD(ALL)", "AUTHRMV(ALLADM)"], "BROWSE,GET,INQ,PASSALL,PASSID,PUT,SET,SETALL,SETID"),
        (["AUTHADD(GET)", "AUTHRMV(ALL)"], "NONE"),
        (["AUTHADD(NONE)"], "NONE"),
    ],
)
def test_a_record_holds_the_authorities_that_were_added_and_not_removed(
    queue_manager: EmbeddedQueueManager, commands: list[str], held: str
) -> None:
    for command in commands:
        done(queue_manager, f"SET AUTHREC PROFILE(ORDERS.IN) OBJTYPE(QUEUE) PRINCIPAL('app') {command}")

    assert [held] == lists(queue_manager, "DISPLAY AUTHREC PROFILE(ORDERS.IN) OBJTYPE(QUEUE)")


@pytest.mark.parametrize(
    ("command", "profiles"),
    [
        ("DISPLAY AUTHREC OBJTYPE(QUEUE)", ["**", "ORDERS.*", "ORDERS.IN"]),
        ("DISPLAY AUTHREC PROFILE(ORDERS.IN)", ["**", "ORDERS.*", "ORDERS.IN"]),
        ("DISPLAY AUTHREC PROFILE(ORDERS.IN) MATCH(EXACT)", ["ORDERS.IN"]),
        ("DISPLAY AUTHREC PROFILE(ORDERS.OUT)", ["**", "ORDERS.*"]),
        ("DISPLAY AUTHREC PROFILE(ORDERS.IN) PRINCIPAL('app')", ["ORDERS.*", "ORDERS.IN"]),
        ("DISPLAY AUTHREC GROUP('desk')", ["**"]),
        ("DISPLAY AUTHREC PROFILE('@class') OBJTYPE(QUEUE) MATCH(EXACT)", ["@CLASS"]),
        ("DISPLAY AUTHREC PROFILE(QM1) OBJTYPE(QMGR) PRINCIPAL('app')", ["SELF"]),
    ],
)
def test_display_shows_the_records_that_are_meant(
    queue_manager: EmbeddedQueueManager, command: str, profiles: list[str]
) -> None:
    for profile in ("ORDERS.IN", "ORDERS.*"):
        done(queue_manager, f"SET AUTHREC PROFILE('{profile}') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(GET)")
    done(queue_manager, "SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) GROUP('desk') AUTHADD(DSP)")
    if "@class" in command or "QM1" in command:
        done(queue_manager, "SET AUTHREC PROFILE('@class') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(CRT)")
        done(queue_manager, "SET AUTHREC PROFILE(QM1) OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(CONNECT)")

    assert profiles == [record["PROFILE"] for record in shown(queue_manager, command)]


def test_entauth_adds_up_the_authorities_of_a_users_groups(queue_manager: EmbeddedQueueManager, desks: Desks) -> None:
    desks.of["app"] = frozenset({"desk"})
    done(queue_manager, "SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) GROUP('desk') AUTHADD(DSP)")
    done(queue_manager, "SET AUTHREC PROFILE(ORDERS.IN) OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(GET)")
    asked = "DISPLAY ENTAUTH OBJNAME(ORDERS.IN) OBJTYPE(QUEUE)"

    assert ["DSP,GET"] == lists(queue_manager, f"{asked} PRINCIPAL('app')")
    assert ["DSP"] == lists(queue_manager, f"{asked} GROUP('desk')")
    assert ["NONE"] == lists(queue_manager, f"{asked} PRINCIPAL('other')")
    assert ["NONE"] == lists(queue_manager, "DISPLAY ENTAUTH OBJTYPE(QMGR) PRINCIPAL('app')")


def test_entauth_of_a_group_leaves_out_what_everybody_may_do(queue_manager: EmbeddedQueueManager) -> None:
    done(queue_manager, "SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) GROUP('desk') AUTHADD(DSP)")
    done(queue_manager, "SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) GROUP('nobody') AUTHADD(GET)")
    asked = "DISPLAY ENTAUTH OBJNAME(ORDERS.IN) OBJTYPE(QUEUE)"

    assert ["DSP"] == lists(queue_manager, f"{asked} GROUP('desk')")
    assert ["GET"] == lists(queue_manager, f"{asked} GROUP('nobody')")
    assert ["GET"] == lists(queue_manager, f"{asked} PRINCIPAL('other')")


def test_entauth_of_the_administrators_is_everything(queue_manager: EmbeddedQueueManager) -> None:
    done(queue_manager, CONNECT)
    asked = "DISPLAY ENTAUTH OBJNAME(ORDERS.IN) OBJTYPE(QUEUE)"

    assert lists(queue_manager, f"{asked} PRINCIPAL('mqm')") == lists(queue_manager, f"{asked} GROUP('mqm')")


def test_the_groups_of_a_user_are_remembered_until_security_is_refreshed(
    queue_manager: EmbeddedQueueManager, desks: Desks
) -> None:
    """Principals and groups: "authorities are cached ... unless you issue the MQSC command REFRESH SECURITY"."""
    done(queue_manager, "SET AUTHREC OBJTYPE(QMGR) GROUP('desk') AUTHADD(CONNECT)")
    with pytest.raises(NotAuthorizedError):
        queue_manager.connect(user="app")

    desks.of["app"] = frozenset({"desk"})
    with pytest.raises(NotAuthorizedError):
        queue_manager.connect(user="app")
    done(queue_manager, "REFRESH SECURITY")

    queue_manager.connect(user="app")


def test_a_user_in_the_group_mqm_may_do_everything(queue_manager: EmbeddedQueueManager, desks: Desks) -> None:
    desks.of["boss"] = frozenset({"mqm"})
    done(queue_manager, CONNECT)

    queue_manager.connect(user="boss").open("ORDERS.IN", OpenOption.OUTPUT | OpenOption.SET_ALL_CONTEXT)
    assert "ORDERS.IN" in [queue.name for queue in queue_manager.administration_of("boss").queues()]


def test_a_user_that_does_not_administer_the_queue_manager_gets_no_administration(queue_manager: EmbeddedQueueManager) -> None:
    assert queue_manager.administration_of("app")  # before any check of an authority
    done(queue_manager, CONNECT)

    with pytest.raises(NotAuthorizedError, match="User app does not administer it"):
        queue_manager.administration_of("app")


def test_deleting_the_last_record_of_an_application_does_not_let_it_in_again(queue_manager: EmbeddedQueueManager) -> None:
    done(queue_manager, CONNECT)
    done(queue_manager, "DELETE AUTHREC OBJTYPE(QMGR) PRINCIPAL('app')")

    with pytest.raises(NotAuthorizedError):
        queue_manager.connect(user="app")


def test_without_any_record_nothing_is_checked_any_more(queue_manager: EmbeddedQueueManager) -> None:
    done(queue_manager, CONNECT)
    done(queue_manager, "DELETE AUTHREC OBJTYPE(QMGR) PRINCIPAL('app')\nDELETE AUTHREC OBJTYPE(QMGR) GROUP('mqm')")

    queue_manager.connect(user="app").open("ORDERS.IN", OpenOption.OUTPUT)


@pytest.mark.parametrize(("option", "left"), [("", []), ("AUTHREC(YES)", []), ("AUTHREC(NO)", ["ORDERS.IN"])])
def test_the_records_of_a_queues_name_go_with_it_unless_they_are_kept(
    queue_manager: EmbeddedQueueManager, option: str, left: list[str]
) -> None:
    """DELETE QLOCAL: AUTHREC(YES) is the default."""
    done(queue_manager, "SET AUTHREC PROFILE(ORDERS.IN) OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(GET)")
    done(queue_manager, f"DELETE QLOCAL(ORDERS.IN) {option}")

    records = queue_manager.administration.authorities.records()
    assert left == [record.profile for record in records if record.entity == "app"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("SET AUTHREC PROFILE(NOT.THERE) OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(GET)", "There is no queue NOT.THERE yet"),
        ("SET AUTHREC PROFILE(QM2) OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(INQ)", "This queue manager is QM1"),
        ("SET AUTHREC PROFILE(ORDERS.IN) OBJTYPE(QUEUE) PRINCIPAL('thirteenchars') AUTHADD(GET)", "1 to 12 characters"),
        ("SET AUTHREC PROFILE(ORDERS.IN) OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(CRT)", "PROFILE('@CLASS')"),
        ("SET AUTHREC PROFILE('@class') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(GET)", "PROFILE('@CLASS')"),
        ("SET AUTHREC PROFILE('@class') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(CRT,GET)", "PROFILE('@CLASS')"),
        ("DELETE AUTHREC PROFILE(ORDERS.IN) OBJTYPE(QUEUE) PRINCIPAL('app')", "There is no authority record"),
        ("DISPLAY AUTHREC PROFILE(ORDERS.IN)", "AMQ8147"),
    ],
)
def test_the_queue_manager_refuses_these_commands(queue_manager: EmbeddedQueueManager, command: str, said: str) -> None:
    [response] = run(command, queue_manager.administration).responses

    assert Verdict.FAILED is response.verdict
    assert said in response.text


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("SET AUTHREC PROFILE(A) PRINCIPAL('app') AUTHADD(GET)", "OBJTYPE is needed"),
        ("SET AUTHREC PROFILE(A) OBJTYPE(QUEUES) PRINCIPAL('app') AUTHADD(GET)", "OBJTYPE(QUEUES) is not valid"),
        ("SET AUTHREC OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(GET)", "PROFILE is needed"),
        ("SET AUTHREC PROFILE('A B') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(GET)", "'A B' is not a profile"),
        ("SET AUTHREC PROFILE(A) OBJTYPE(QUEUE) AUTHADD(GET)", "PRINCIPAL or GROUP is needed"),
        ("SET AUTHREC PROFILE(A) OBJTYPE(QUEUE) PRINCIPAL('a') GROUP('b') AUTHADD(GET)", "contradicts an earlier word"),
        ("SET AUTHREC PROFILE(A) OBJTYPE(QUEUE) PRINCIPAL('app')", "needs AUTHADD or AUTHRMV"),
        ("SET AUTHREC PROFILE(A) OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(CONNECT)", "OBJTYPE(QUEUE) has no authority"),
        ("SET AUTHREC PROFILE(A) OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD", "AUTHADD needs a value"),
        ("DISPLAY ENTAUTH OBJTYPE(QUEUE) PRINCIPAL('app')", "needs OBJNAME"),
        ("REFRESH SECURITY TYPE(ALL)", "TYPE(ALL) is not valid"),
    ],
)
def test_a_command_that_makes_no_sense_is_a_syntax_error(queue_manager: EmbeddedQueueManager, command: str, said: str) -> None:
    [response] = run(command, queue_manager.administration).responses

    assert Verdict.SYNTAX_ERROR is response.verdict
    assert said in response.text


def test_the_records_of_a_deleted_object_do_not_come_back_with_a_restart(tmp_path: Path) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path)) as made:
        done(
            made,
            "DEFINE PROCESS(P)\nSET AUTHREC PROFILE('P') OBJTYPE(PROCESS) PRINCIPAL('ann') AUTHADD(INQ)\nDELETE PROCESS(P)",
        )

    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path)) as restarted:
        assert {"SELF"} == {record["PROFILE"] for record in shown(restarted, "DISPLAY AUTHREC")}
