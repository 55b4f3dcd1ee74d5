"""Topic objects: inheritance in the tree, and the attributes that allow or forbid calls. Defined and shown by MQSC.

Source: IBM, DEFINE TOPIC (ASPARENT and each keyword that is used here), DEFINE SUB, DISPLAY TPSTATUS, SBSTATUS.
"""

import pytest

from mqflow.embedded.mqsc import Verdict, run
from mqflow.mqi.options import ObjectType, OpenOption, Persistence, PutOption, SubscribeOption
from mqflow.mqi.reason_codes import Reason
from tests.conformance.programs import Program
from tests.conformance.test_retained import RETAIN
from tests.conformance.test_subscriptions import CREATE, DURABLE, MANAGED, PERSISTENT, RESUME, again, bodies, publish, subscribe
from tests.conformance.under_test import UnderTest, refused


def mqsc(queue_manager: UnderTest, script: str) -> list[dict[str, object]]:
    """Run the script and return its output."""
    results = run(script, queue_manager.administration)
    failed = [response.text for response in results.responses if response.verdict is not Verdict.DONE]
    assert [] == failed
    return [{cell.keyword: cell.value for cell in record.cells} for each in results.responses for record in each.records]


def reason_of(queue_manager: UnderTest, command: str) -> int:
    [response] = run(command, queue_manager.administration).responses
    return response.reason


def test_a_topic_object_stands_for_its_topic_string(queue_manager: UnderTest, program: Program) -> None:
    mqsc(queue_manager, "DEFINE TOPIC(PRICES) TOPICSTR('Prices')")
    subscribed = subscribe(program, "Oil", object_name="PRICES")

    handle = program.open("PRICES", OpenOption.OUTPUT, object_type=ObjectType.TOPIC, object_string="Oil")
    program.put(handle, b"by object")
    publish(program, "Prices/Oil", b"by string")

    assert "Prices/Oil" == subscribed.descriptor.topic_string
    assert [b"by object", b"by string"] == bodies(program, subscribed)


def test_an_alias_can_lead_to_a_topic(queue_manager: UnderTest, program: Program) -> None:
    mqsc(queue_manager, "DEFINE TOPIC(PRICES) TOPICSTR('Prices')\nDEFINE QALIAS(P) TARGET(PRICES) TARGTYPE(TOPIC)")
    subscribed = subscribe(program, "Prices")

    program.put(program.open("P", OpenOption.OUTPUT), b"one")

    assert [b"one"] == bodies(program, subscribed)


def test_an_alias_that_is_inhibited_for_puts_publishes_nothing(queue_manager: UnderTest, program: Program) -> None:
    mqsc(queue_manager, "DEFINE TOPIC(PRICES) TOPICSTR('Prices')\nDEFINE QALIAS(P) TARGET(PRICES) TARGTYPE(TOPIC)")
    subscribed = subscribe(program, "Prices")
    handle = program.open("P", OpenOption.OUTPUT)

    mqsc(queue_manager, "ALTER QALIAS(P) PUT(DISABLED)")

    with refused(Reason.PUT_INHIBITED):
        program.put(handle, b"one")
    assert [] == bodies(program, subscribed)


def test_an_alias_of_a_topic_changes_under_an_open_handle_only_with_force(queue_manager: UnderTest, program: Program) -> None:
    mqsc(queue_manager, "DEFINE TOPIC(PRICES) TOPICSTR('Prices')\nDEFINE QALIAS(P) TARGET(PRICES) TARGTYPE(TOPIC)")
    handle = program.open("P", OpenOption.OUTPUT)

    without_force = reason_of(queue_manager, "ALTER QALIAS(P) TARGET(NEWS)")
    mqsc(queue_manager, "ALTER QALIAS(P) TARGET(NEWS) FORCE")

    assert Reason.OBJECT_IN_USE == without_force
    with refused(Reason.OBJECT_CHANGED):
        program.put(handle, b"one")


def test_defaults_are_inherited_down_the_tree(queue_manager: UnderTest, program: Program) -> None:
    mqsc(queue_manager, "DEFINE TOPIC(A) TOPICSTR('A') DEFPSIST(YES) DEFPRTY(7)\nDEFINE TOPIC(AB) TOPICSTR('A/B') DEFPRTY(2)")

    found = [publish(program, topic).descriptor for topic in ("A", "A/B", "A/B/C", "A/X", "Z")]

    assert [(1, 7), (1, 2), (1, 2), (1, 7), (0, 0)] == [(each.persistence, each.priority) for each in found]


def test_a_disabled_topic_disables_the_topics_below(queue_manager: UnderTest, program: Program) -> None:
    mqsc(
        queue_manager,
        "DEFINE TOPIC(A) TOPICSTR('A') PUB(DISABLED) SUB(DISABLED)\nDEFINE TOPIC(AB) TOPICSTR('A/B') PUB(ENABLED) DURSUB(NO)\n"
        "DEFINE TOPIC(D) TOPICSTR('D') DURSUB(NO)",
    )

    with refused(Reason.PUT_INHIBITED):
        publish(program, "A/X")
    with refused(Reason.SUB_INHIBITED):
        subscribe(program, "A/B")
    with refused(Reason.DURABILITY_NOT_ALLOWED):
        subscribe(program, "D/E", DURABLE, name="desk-1")
    publish(program, "A/B/C")
    subscribe(program, "D/E")


def test_an_altered_topic_holds_at_once(queue_manager: UnderTest, program: Program) -> None:
    mqsc(queue_manager, "DEFINE TOPIC(A) TOPICSTR('A')")
    publish(program, "A")

    mqsc(queue_manager, "ALTER TOPIC(A) PUB(DISABLED)")

    with refused(Reason.PUT_INHIBITED):
        publish(program, "A")


def test_managed_queues_come_from_the_topics_models(queue_manager: UnderTest, program: Program) -> None:
    mqsc(
        queue_manager,
        "DEFINE QMODEL(DUR.MODEL) DEFTYPE(PERMDYN) BOTHRESH(3) BOQNAME(A.BOQ)\nDEFINE QMODEL(NDUR.MODEL) BOTHRESH(5)\n"
        "DEFINE TOPIC(A) TOPICSTR('A') MDURMDL(DUR.MODEL) MNDURMDL(NDUR.MODEL)",
    )

    found = []
    for options in (DURABLE, MANAGED):
        name = subscribe(program, "A/B", options, name=f"sub-{options}").queue.resolved_queue
        made = queue_manager.administration.queue(name)
        assert made is not None
        found.append((made.backout_threshold, made.backout_requeue_queue))

    assert [(3, "A.BOQ"), (5, "")] == found


def test_a_managed_queue_of_a_model_that_does_not_exist_is_2085(queue_manager: UnderTest, program: Program) -> None:
    mqsc(queue_manager, "DEFINE TOPIC(A) TOPICSTR('A') MNDURMDL(NOT.THERE)")

    with refused(Reason.UNKNOWN_OBJECT_NAME):
        subscribe(program, "A")


def test_a_refused_subscription_leaves_no_managed_queue_and_no_handle(
    queue_manager: UnderTest, program: Program, queue: str
) -> None:
    mqsc(
        queue_manager,
        "DEFINE QMODEL(NARROW) MAXDEPTH(1)\nDEFINE TOPIC(A) TOPICSTR('A') MNDURMDL(NARROW) NPMSGDLV(ALL) USEDLQ(NO)",
    )
    for topic in ("A/B", "A/C"):
        publish(program, topic, b"", PutOption.RETAIN | PutOption.NO_SYNCPOINT)
    queue_manager.administration.alter_queue_manager({"max_handles": 1})

    with refused(Reason.RETAINED_NOT_DELIVERED):
        subscribe(program, "A/#")

    program.open(queue)
    assert [] == [each.name for each in queue_manager.administration.queues() if each.name.startswith("SYSTEM.MANAGED")]


def test_wildcards_above_a_blocking_topic_do_not_reach_it(queue_manager: UnderTest, program: Program) -> None:
    mqsc(queue_manager, "DEFINE TOPIC(AB) TOPICSTR('A/B') WILDCARD(BLOCK)")
    above, at, exact = subscribe(program, "A/#"), subscribe(program, "A/B/#"), subscribe(program, "A/B/C")

    publish(program, "A/B/C", b"inside")
    publish(program, "A/X", b"outside")

    assert [[b"outside"], [b"inside"], [b"inside"]] == [bodies(program, each) for each in (above, at, exact)]


# ---- delivery rules: a durable and a non-durable subscriber, and one of them cannot take the publication

RULES = [
    # rule; whether the queue of the durable subscriber is full, and that of the other; the deliveries (durable, other), or None
    # for 2502 and no delivery
    ("ALL", False, False, (True, True)),
    ("ALL", False, True, None),
    ("ALL", True, False, None),
    ("ALLDUR", False, True, (True, False)),
    ("ALLDUR", True, False, None),
    ("ALLAVAIL", False, True, (True, False)),
    ("ALLAVAIL", True, False, (False, True)),
    ("ALLAVAIL", True, True, (False, False)),
]


@pytest.mark.parametrize("persistence", [int(Persistence.NOT_PERSISTENT), PERSISTENT])
@pytest.mark.parametrize(("rule", "durable_full", "other_full", "expected"), RULES)
def test_the_delivery_rule_decides(
    queue_manager: UnderTest,
    program: Program,
    rule: str,
    *,
    durable_full: bool,
    other_full: bool,
    expected: tuple[bool, bool] | None,
    persistence: int,
) -> None:
    keyword, opposite = ("PMSGDLV", "NPMSGDLV") if persistence else ("NPMSGDLV", "PMSGDLV")
    contrary = "ALLAVAIL" if rule == "ALL" else "ALL"
    mqsc(queue_manager, f"DEFINE TOPIC(A) TOPICSTR('A') {keyword}({rule}) {opposite}({contrary}) USEDLQ(NO)")
    queues = [queue_manager.define("DURABLE.Q", max_depth=0 if durable_full else 5)]
    queues.append(queue_manager.define("OTHER.Q", max_depth=0 if other_full else 5))
    subscribe(program, "A", CREATE | SubscribeOption.DURABLE, program.handle(queues[0]), name="desk-1")
    subscribe(program, "A", CREATE, program.handle(queues[1]))

    if expected is None:
        with refused(Reason.PUBLICATION_FAILURE):
            publish(program, "A", b"one", persistence=persistence)
    else:
        publish(program, "A", b"one", persistence=persistence)

    assert [int(got) for got in expected or (False, False)] == [queue_manager.depth(name) for name in queues]


def test_the_rules_of_the_base_topic_are_alldur_and_allavail(queue_manager: UnderTest) -> None:
    [shown] = mqsc(queue_manager, "DISPLAY TOPIC(SYSTEM.BASE.TOPIC) PMSGDLV NPMSGDLV")

    assert ("ALLDUR", "ALLAVAIL") == (shown["PMSGDLV"], shown["NPMSGDLV"])


def test_a_publication_that_cannot_be_delivered_goes_to_the_dead_letter_queue(
    queue_manager: UnderTest, program: Program
) -> None:
    queue_manager.administration.alter_queue_manager({"dead_letter_queue": queue_manager.define("DLQ")})
    mqsc(queue_manager, "DEFINE TOPIC(A) TOPICSTR('A') NPMSGDLV(ALL)")
    subscribe(program, "A", CREATE, program.handle(queue_manager.define("FULL.Q", max_depth=0)))

    publish(program, "A", b"one")

    dead = program.got("DLQ")
    assert ("MQDEAD", b"one") == (dead.descriptor.format, dead.body[172:])
    assert Reason.Q_FULL == int.from_bytes(dead.body[8:12], "little")


@pytest.mark.parametrize("inhibited", ["TARGET", "ALIAS"])
def test_an_inhibited_queue_or_alias_gets_no_publication(queue_manager: UnderTest, program: Program, inhibited: str) -> None:
    alias = queue_manager.define_alias("ALIAS", queue_manager.define("TARGET"))
    mqsc(queue_manager, f"DEFINE SUB(S) TOPICSTR('A') DEST({alias})")
    queue_manager.administration.alter(inhibited, {"put_inhibited": True})

    with refused(Reason.PUBLICATION_FAILURE):
        publish(program, "A", b"one", persistence=PERSISTENT)

    assert 0 == queue_manager.depth("TARGET")


def test_the_copies_of_one_publication_count_towards_the_depth_of_their_queue(
    queue_manager: UnderTest, program: Program
) -> None:
    mqsc(queue_manager, "DEFINE TOPIC(A) TOPICSTR('A') NPMSGDLV(ALL) USEDLQ(NO)")
    narrow = queue_manager.define("NARROW.Q", max_depth=1)
    for topic in ("A", "A/#"):
        subscribe(program, topic, CREATE, program.handle(narrow))

    with refused(Reason.PUBLICATION_FAILURE):
        publish(program, "A", b"one")

    assert 0 == queue_manager.depth(narrow)


def test_a_failed_publication_in_a_unit_of_work_leaves_the_rest_of_it(
    queue_manager: UnderTest, program: Program, queue: str
) -> None:
    mqsc(queue_manager, "DEFINE TOPIC(A) TOPICSTR('A') NPMSGDLV(ALL) USEDLQ(NO)")
    subscribe(program, "A", CREATE, program.handle(queue_manager.define("FULL.Q", max_depth=0)))

    program.put_in_unit(queue, b"kept")
    with refused(Reason.PUBLICATION_FAILURE):
        publish(program, "A", b"one", PutOption.SYNCPOINT)
    program.commit()

    assert [b"kept"] == program.bodies(queue)


# ---- MQSC


def test_a_defined_topic_is_shown_altered_and_deleted(queue_manager: UnderTest) -> None:
    mqsc(queue_manager, "DEFINE TOPIC(PRICES) TOPICSTR('Prices') DESCR('of oil')\nALTER TOPIC(PRICES) DURSUB(NO)")

    [shown] = mqsc(queue_manager, "DISPLAY TOPIC(PRICES)")
    mqsc(queue_manager, "DELETE TOPIC(PRICES)")

    assert ("PRICES", "Prices", "of oil", "NO", "ASPARENT") == tuple(
        shown[keyword] for keyword in ("TOPIC", "TOPICSTR", "DESCR", "DURSUB", "PUB")
    )
    assert Reason.UNKNOWN_OBJECT_NAME == reason_of(queue_manager, "DISPLAY TOPIC(PRICES)")


def test_topic_objects_survive_a_restart(queue_manager: UnderTest) -> None:
    if queue_manager.restart is None:
        pytest.skip("nothing survives here")
    mqsc(queue_manager, "DEFINE TOPIC(PRICES) TOPICSTR('Prices') PUB(DISABLED)")

    program = again(queue_manager.restart())

    with refused(Reason.PUT_INHIBITED):
        publish(program, "Prices/Oil")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("DEFINE TOPIC(PRICES) TOPICSTR('Other')", Reason.OBJECT_ALREADY_EXISTS),
        ("DEFINE TOPIC(OTHER) TOPICSTR('Prices')", Reason.TOPIC_STRING_ERROR),
        ("DEFINE TOPIC(OTHER)", Reason.TOPIC_STRING_ERROR),
        ("ALTER TOPIC(PRICES) TOPICSTR('Other')", Reason.TOPIC_NOT_ALTERABLE),
        ("ALTER TOPIC(OTHER) PUB(ENABLED)", Reason.UNKNOWN_OBJECT_NAME),
        ("DELETE TOPIC(OTHER)", Reason.UNKNOWN_OBJECT_NAME),
        ("DELETE TOPIC(SYSTEM.BASE.TOPIC)", Reason.OBJECT_IN_USE),
        ("CLEAR TOPICSTR('Prices') CLRTYPE(RETAINED)", Reason.UNKNOWN_OBJECT_NAME),
        ("DEFINE SUB(ALERTS) TOPICSTR('Prices') DEST(Q)", Reason.SUB_ALREADY_EXISTS),
        ("DEFINE SUB(OTHER) TOPICSTR('Prices')", Reason.UNKNOWN_OBJECT_NAME),
        ("DEFINE SUB(OTHER) TOPICSTR('Prices') DEST(Q) SELECTOR('a =')", Reason.SELECTOR_SYNTAX_ERROR),
        ("ALTER SUB(ALERTS) TOPICSTR('Other')", Reason.TOPIC_NOT_ALTERABLE),
        ("ALTER SUB(NOBODY) USERDATA('x')", Reason.NO_SUBSCRIPTION),
        ("DELETE SUB(NOBODY)", Reason.NO_SUBSCRIPTION),
        ("DELETE SUB('held')", Reason.SUBSCRIPTION_IN_USE),
    ],
)
def test_mqsc_refuses_these_topic_commands(
    queue_manager: UnderTest, program: Program, queue: str, command: str, reason: Reason
) -> None:
    mqsc(queue_manager, f"DEFINE TOPIC(PRICES) TOPICSTR('Prices')\nDEFINE SUB(ALERTS) TOPICSTR('Prices') DEST({queue})")
    subscribe(program, "Prices", DURABLE, name="held")

    assert reason == reason_of(queue_manager, command)


def test_an_administrative_subscription_delivers_to_its_queue_until_it_is_deleted(
    queue_manager: UnderTest, program: Program, queue: str
) -> None:
    publish(program, "Prices/Oil", b"retained", RETAIN)
    mqsc(queue_manager, f"DEFINE SUB(ALERTS) TOPICSTR('Prices/#') DEST({queue}) DESTCORL('41424344') USERDATA('of desk 1')")

    publish(program, "Prices/Oil", b"one")
    [shown] = mqsc(queue_manager, "DISPLAY SUB(ALERTS)")
    correlation = program.browse(queue)
    mqsc(queue_manager, "DELETE SUB(ALERTS)")
    publish(program, "Prices/Oil", b"two")

    assert ("Prices/#", queue, "PROVIDED", "ADMIN", "YES", "of desk 1") == tuple(
        shown[keyword] for keyword in ("TOPICSTR", "DEST", "DESTCLAS", "SUBTYPE", "DURABLE", "USERDATA")
    )
    assert correlation is not None
    assert b"ABCD".ljust(24, b"\0") == correlation.descriptor.correlation_id
    assert [b"retained", b"one"] == program.bodies(queue)


def test_an_administrative_subscription_is_for_any_user_to_resume_unless_it_says_fixed(
    queue_manager: UnderTest, other: Program
) -> None:
    """IBM q085760: VARUSER(ANY) is the default."""
    mqsc(queue_manager, "DEFINE SUB(ANYBODYS) TOPICSTR('Prices') DESTCLAS(MANAGED)")
    mqsc(queue_manager, "DEFINE SUB(MINE) TOPICSTR('Prices') DESTCLAS(MANAGED) VARUSER(FIXED)")

    assert "ANYBODYS" == subscribe(other, options=RESUME, name="ANYBODYS").descriptor.name
    with refused(Reason.IDENTITY_MISMATCH):
        subscribe(other, options=RESUME, name="MINE")


def test_an_administrative_subscription_may_have_a_managed_queue_that_goes_with_it(
    queue_manager: UnderTest,
) -> None:
    mqsc(queue_manager, "DEFINE SUB(ALERTS) TOPICSTR('Prices/#') DESTCLAS(MANAGED)")
    [shown] = mqsc(queue_manager, "DISPLAY SUB(ALERTS) DEST")
    before = queue_manager.administration.queue(str(shown["DEST"]))
    mqsc(queue_manager, "DELETE SUB(ALERTS)")

    assert before is not None
    assert queue_manager.administration.queue(str(shown["DEST"])) is None


def test_status_shows_the_attributes_and_the_subscribers_of_a_topic(queue_manager: UnderTest, program: Program) -> None:
    mqsc(queue_manager, "DEFINE TOPIC(A) TOPICSTR('A') DEFPRTY(7)")
    subscribe(program, "A/B", DURABLE, name="desk-1")
    publish(program, "A/B", b"", RETAIN)

    [topic] = mqsc(queue_manager, "DISPLAY TPSTATUS('A/B')")
    [held] = mqsc(queue_manager, "DISPLAY SBSTATUS('desk-1')")
    program.disconnect()
    [waiting] = mqsc(queue_manager, "DISPLAY SBSTATUS('desk-1')")
    mqsc(queue_manager, "CLEAR TOPICSTR('A/B') CLRTYPE(RETAINED)")
    [cleared] = mqsc(queue_manager, "DISPLAY TPSTATUS('A/B')")

    assert ("A", 7, 1, "YES") == tuple(topic[keyword] for keyword in ("ADMIN", "DEFPRTY", "SUBCOUNT", "RETAINED"))
    assert (16, "") == (len(str(held["ACTCONN"])), waiting["ACTCONN"])
    assert "NO" == cleared["RETAINED"]
