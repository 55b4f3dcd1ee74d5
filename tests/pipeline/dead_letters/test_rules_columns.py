"""Rules as Spark columns decide as IBM's words say, and as the DLQ handler does, for every table and every message."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from mqflow.journal.rows import Position, columns
from mqflow.journal.schemas import Kind, arrow_schema, ddl
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers.dead_letter import DeadLetterHeader, to_bytes
from mqflow.pipeline.dead_letters.rules_columns import COLUMNS, MASK_RULES, CompiledRules, compile_rules, numbers_of
from mqflow.pipeline.dead_letters.triage import differences, triage, unmatched
from mqflow.policy.dead_letters.actions import DeadLetter, choose, dead_letter, field_of, matchers
from mqflow.policy.dead_letters.rules import Action, Condition, Rule, RulesError, RulesTable
from mqflow.policy.dead_letters.rules.vocabulary import PATTERNS, Field
from mqflow.verbs import Got

#: Few letters, so that patterns match, and characters that are special in regular expressions.
LETTERS = "AB.a *?\n\r\\E$é😀"
texts = st.text(LETTERS, max_size=6).map(lambda text: text.rstrip(" "))
numbers = st.integers(0, 3)


def conditions(field: Field) -> st.SearchStrategy[Condition]:
    value = texts if PATTERNS[field].chars_max else numbers | st.just("*")
    return st.builds(Condition, st.just(field), value)


rules = st.builds(
    Rule,
    conditions=st.lists(st.sampled_from(Field), max_size=3, unique=True).flatmap(
        lambda fields: st.tuples(*(conditions(field) for field in fields))
    ),
    action=st.sampled_from(Action),
    forward_queue=st.just("OTHER"),
)
tables = st.lists(rules, min_size=1, max_size=6).map(lambda made: RulesTable(tuple(made)))
#: The values in columns equal those in the record; another test covers the bytes of a header.
messages = st.fixed_dictionaries({field: texts if PATTERNS[field].chars_max else numbers for field in Field})


def row_of(message: dict[Field, str | int]) -> tuple[object, ...]:
    return tuple(message[field] for field in COLUMNS)


def wildcard(pattern: str, text: str) -> bool:
    """Whether a pattern matches: `?` is any one character, `*` any number of characters, also none (IBM q005680)."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(wildcard(pattern[1:], text[at:]) for at in range(len(text) + 1))
    return bool(text) and pattern[0] in {"?", text[0]} and wildcard(pattern[1:], text[1:])


def holds(condition: Condition, message: dict[Field, str | int]) -> bool:
    """Whether a condition holds, by IBM's words. A field ends with blanks, which count neither there nor in a pattern."""
    value, wanted = message[condition.field], condition.value
    if isinstance(value, str):
        return wildcard(str(wanted).rstrip(" "), value.rstrip(" "))
    return wanted in {"*", value}


def oracle(table: RulesTable, message: dict[Field, str | int]) -> list[int]:
    """The numbers of the matching rules: written here, from IBM's words, so that it cannot repeat a mistake of mqflow."""
    return [at for at, rule in enumerate(table.rules, start=1) if all(holds(each, message) for each in rule.conditions)]


def handled(table: RulesTable, message: dict[Field, str | int]) -> list[int]:
    """The same by the matcher of the DLQ handler, on records with these fields."""
    header = DeadLetterHeader(
        reason=int(message[Field.REASON]),
        destination_queue=str(message[Field.DESTQ]),
        destination_queue_manager=str(message[Field.DESTQM]),
        format=str(message[Field.FORMAT]),
    )
    descriptor = MessageDescriptor(
        application_identity_data=str(message[Field.APPLIDAT]), put_application_name=str(message[Field.APPLNAME]),
        put_application_type=int(message[Field.APPLTYPE]), feedback=int(message[Field.FEEDBACK]),
        message_type=int(message[Field.MSGTYPE]), persistence=int(message[Field.PERSIST]),
        reply_to_queue=str(message[Field.REPLYQ]), reply_to_queue_manager=str(message[Field.REPLYQM]),
        user_identifier=str(message[Field.USERID]),
    )  # fmt: skip
    letter = DeadLetter(descriptor, header, b"")
    assert all(field_of(field, letter) == message[field] for field in Field)
    return [at for at, each in enumerate(matchers(table.rules), start=1) if each.matches(letter)]


def all_matches(compiled: CompiledRules) -> Column:
    numbers = range(1, len(compiled.rules) + 1)
    return f.array_compact(f.array(*(f.when(compiled.matches(number), f.lit(number)) for number in numbers)))


def asked(spark: SparkSession, made: Sequence[dict[Field, str | int]]) -> DataFrame:
    types = ", ".join(f"{name} {'string' if PATTERNS[field].chars_max else 'int'}" for field, name in COLUMNS.items())
    return spark.createDataFrame(
        [(at, True, *row_of(each)) for at, each in enumerate(made)], f"at int, has_dlh boolean, {types}"
    )


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(tables=st.lists(tables, min_size=4, max_size=6), made=st.lists(messages, min_size=30, max_size=60))
def test_columns_and_the_handler_agree(
    spark: SparkSession, tables: list[RulesTable], made: list[dict[Field, str | int]]
) -> None:
    compiled = [compile_rules(table) for table in tables]
    frame = asked(spark, made).select(
        "at",
        *(one.first_match().alias(f"first{at}") for at, one in enumerate(compiled)),
        *(all_matches(one).alias(f"all{at}") for at, one in enumerate(compiled)),
        *(one.masks()[0].alias(f"mask{at}") for at, one in enumerate(compiled)),
    )

    found = frame.collect()

    assert len(found) == len(made)
    assert set(range(len(made))) == {row["at"] for row in found}
    for row in found:
        for at, table in enumerate(tables):
            expected = oracle(table, made[row["at"]])
            assert expected == handled(table, made[row["at"]])
            assert (expected, expected[0] if expected else None) == (row[f"all{at}"], row[f"first{at}"])
            assert tuple(expected) == numbers_of([row[f"mask{at}"]])


def test_a_rule_made_by_hand_that_looks_twice_at_a_field_needs_both(spark: SparkSession) -> None:
    twice = (Condition(Field.DESTQ, "A*"), Condition(Field.DESTQ, "*B"))
    table = RulesTable((Rule(conditions=twice, action=Action.DISCARD), Rule(conditions=twice[:1], action=Action.DISCARD)))
    blank: dict[Field, str | int] = {field: "" if PATTERNS[field].chars_max else 0 for field in Field}
    made = [blank | {Field.DESTQ: value} for value in ("AB", "A", "B", "")]

    found = asked(spark, made).select("at", compile_rules(table).masks()[0].alias("mask")).collect()

    assert len(found) == len(made)
    assert [(1, 2), (2,), (), ()] == [numbers_of([row["mask"]]) for row in sorted(found)]
    assert [[1, 2], [2], [], []] == [oracle(table, each) for each in made] == [handled(table, each) for each in made]


PATTERN_ROWS = [
    "", "*", "A", "A*", "*A", "*A*", "A?", "?", "A*B", "*.*B*", "\\E", "A\nB", "?*", "A B", "$", "*a?*", "A*A", "é*é", "A ",
    "?A*", "A?B", "é?", "?.?*", "??", "A*?", "😀?*",
]  # fmt: skip


def test_every_kind_of_pattern_is_compiled_to_what_the_handler_says(spark: SparkSession) -> None:
    rows = tuple(Rule(conditions=(Condition(Field.DESTQ, pattern),), action=Action.DISCARD) for pattern in PATTERN_ROWS)
    table = RulesTable(rows)
    values = ["", "A", "AB", "BA", "A\n", "A\nB", "A.B", "\\E", "a", "$", "éA", "😀", "A B", "xA😀B", "bay", "é", "éxé", "A A"]
    values += ["xA", "éé", "A😀B", "😀é", "x.😀y"]
    blank: dict[Field, str | int] = {field: "" if PATTERNS[field].chars_max else 0 for field in Field}
    made = [blank | {Field.DESTQ: value} for value in values]

    compiled = compile_rules(table)
    found = asked(spark, made).select("at", all_matches(compiled).alias("all"), compiled.masks()[0].alias("mask")).collect()

    assert len(found) == len(made)
    assert {at: oracle(table, each) for at, each in enumerate(made)} == {row["at"]: row["all"] for row in found}
    assert [oracle(table, each) for each in made] == [handled(table, each) for each in made]
    assert all(tuple(row["all"]) == numbers_of([row["mask"]]) for row in found)
    assert set(range(1, len(rows) + 1)) == {number for row in found for number in row["all"]}


TABLE = """
DESTQ(ORDERS.*) REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(5)
DESTQ(ORDERS.IN) ACTION(FWD) FWDQ(HELD) HEADER(YES)
REASON(MQRC_Q_FULL) DESTQ(ORDERS.IN) ACTION(DISCARD)
FORMAT(NEVER) ACTION(DISCARD)
APPLIDAT('x*') FEEDBACK(260) ACTION(FWD) FWDQ(&DESTQ) FWDQM(&DESTQM)
"""


def landed(spark: SparkSession, got: Sequence[Got]) -> DataFrame:
    """The messages as the lander writes them."""
    position = Position(lane="DLQ", segment=1, landed_us=0, queue="DLQ", queue_manager="QM1")
    table = pa.table(columns(Kind.DEAD_LETTER, got, position), schema=arrow_schema(Kind.DEAD_LETTER))
    return spark.createDataFrame(table)


def letter(queue: str, reason: int, *, ccsid: int = 1208, **md: object) -> Got:
    descriptor = MessageDescriptor(format="MQDEAD", ccsid=ccsid, encoding=546, **md)  # type: ignore[arg-type]  # by name
    header = DeadLetterHeader(
        reason=reason, destination_queue=queue, destination_queue_manager="QM2", put_date="20260102", put_time="03040500"
    )
    data = to_bytes(header, encoding=546, ccsid=ccsid) + b"body"
    return Got(descriptor=descriptor, body=data, data_bytes=len(data))


LANDED = [
    *[letter("ORDERS.IN", 2053)] * 3,
    *[letter("ORDERS.IN", 2030)] * 2,
    letter("STOCK", 2085, message_id=b"U" * 24),
    letter("STOCK", 2085, ccsid=500, application_identity_data="xyz", feedback=260),
    Got(descriptor=MessageDescriptor(format="MQSTR"), body=b"no header", data_bytes=9),
    Got(descriptor=MessageDescriptor(format="MQDEAD"), body=b"DLH but torn", data_bytes=12),
]


def test_landed_messages_are_judged_as_the_handler_would(spark: SparkSession) -> None:
    compiled = compile_rules(TABLE)

    rows = landed(spark, LANDED).select("ordinal", compiled.first_match().alias("rule")).collect()

    asking = matchers(compiled.rules)
    expected = {}
    for at, got in enumerate(LANDED):
        found = dead_letter(got.descriptor, got.body)
        chosen = choose(asking, found, 0).matcher if found else None
        expected[at] = asking.index(chosen) + 1 if chosen else None
    assert len(rows) == len(LANDED)
    assert expected == {row["ordinal"]: row["rule"] for row in rows}
    # By the words of the table: rule 1 takes full queues, 2 the other orders, 5 the letter of the application.
    assert [1, 1, 1, 2, 2, None, 5, None, None] == [expected[at] for at in range(len(LANDED))]


def test_a_dry_run_counts_each_rule_and_names_the_shadowed(spark: SparkSession) -> None:
    found = triage(landed(spark, LANDED), compile_rules(TABLE))

    assert (9, 2, 1) == (found.messages, found.strays, found.unmatched)
    assert [3, 2, 0, 0, 1] == [use.first for use in found.rules]
    assert [3, 5, 3, 0, 1] == [use.matching for use in found.rules]
    assert [3] == [use.number for use in found.rules if use.shadowed]
    assert [4] == [use.number for use in found.rules if use.never_fires]
    assert ((1, 3),) == found.rules[2].taken_by == found.rules[1].taken_by
    assert 3 * 176 == found.rules[0].first_bytes
    assert datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC) == found.rules[0].oldest


def test_what_no_rule_takes_is_shown(spark: SparkSession) -> None:
    [one] = unmatched(landed(spark, LANDED), compile_rules(TABLE))

    assert ("55" * 24, "STOCK", "2085") == (one.columns["msg_id"], one.columns["dlh_dest_q"], one.columns["dlh_reason"])


def test_the_sample_is_the_same_where_only_days_that_can_have_it_are_looked_at(spark: SparkSession) -> None:
    days = [20, 4, None, 11, 4, 30]
    letters = landed(spark, LANDED[-4:-3] * len(days)).join(
        spark.createDataFrame([(at, day) for at, day in enumerate(days)], "ordinal int, day int"), "ordinal"
    )
    put = f.when(f.col("day").isNotNull(), f.make_timestamp(f.lit(2026), f.lit(1), "day", "ordinal", f.lit(0), f.lit(0)))
    letters = letters.withColumn("dlh_put_ts", put).withColumn("msg_len", f.col("ordinal"))
    compiled = compile_rules(TABLE)

    known = triage(letters, compiled)

    assert ((4, 2), (11, 1), (20, 1), (30, 1), (None, 1)) == tuple(
        (None if day is None else day.day, messages) for day, messages in known.unmatched_by_day
    )
    for most in (1, 2, 3, 6, 9):
        assert unmatched(letters, compiled, most) == unmatched(letters, compiled, most, known=known)
    assert () == unmatched(letters, compiled, known=triage(letters.where("day = 0"), compiled))


def test_two_tables_differ_in_what_they_do_and_not_in_their_order(spark: SparkSession) -> None:
    letters, before = landed(spark, LANDED), compile_rules(TABLE)
    same = CompiledRules((before.rules[0], before.rules[4], before.rules[1]))
    other = compile_rules(TABLE.replace("FWDQ(HELD)", "FWDQ(ELSEWHERE)"))

    assert () == differences(letters, before, same)
    [one] = differences(letters, before, other)
    assert (2, 2, 2) == (one.messages, one.before_rule, one.after_rule)
    assert ("FWD HEADER(YES) PUTAUT(DEF) HELD", "FWD HEADER(YES) PUTAUT(DEF) ELSEWHERE") == (one.before, one.after)


def test_what_would_be_tried_next_is_a_difference_where_that_is_asked_for(spark: SparkSession) -> None:
    letters, before = landed(spark, LANDED), compile_rules(TABLE)
    after = CompiledRules((before.rules[0], *before.rules[2:]))

    [first] = differences(letters, before, after)
    found = differences(letters, before, after, retries=True)

    # Two go elsewhere at once; three only where their own queue takes them no more: then they would be thrown away.
    assert (2, "IGNORE") == (first.messages, first.after)
    assert [
        (3, "RETRY PUTAUT(DEF) ORDERS.IN@QM2, then FWD HEADER(YES) PUTAUT(DEF) HELD, then DISCARD",
         "RETRY PUTAUT(DEF) ORDERS.IN@QM2, then DISCARD"),
        (2, "FWD HEADER(YES) PUTAUT(DEF) HELD, then IGNORE", "IGNORE"),
    ] == [(one.messages, one.before, one.after) for one in found]  # fmt: skip


def test_more_rules_than_one_number_holds_are_counted(spark: SparkSession) -> None:
    many = "\n".join(f"DESTQ(Q{number}) ACTION(DISCARD)" for number in range(MASK_RULES)) + "\nDESTQ(STOCK) ACTION(DISCARD)"

    found = triage(landed(spark, LANDED), compile_rules(many))

    assert 2 == found.rules[MASK_RULES].first
    assert 2 == sum(use.first for use in found.rules)


def test_spark_makes_no_method_that_java_would_not_compile(spark: SparkSession) -> None:
    """One method with 60 rules was interpreted, which took six times the processor time."""
    assert "8000" == spark.conf.get("spark.sql.codegen.hugeMethodLimit")


def test_a_table_with_errors_is_refused_with_all_of_them() -> None:
    with pytest.raises(RulesError, match="There are 2 errors"):
        compile_rules("DESTQ(A) ACTION(NO)\nNOPE(1) ACTION(DISCARD)")


def test_no_rule_is_asked_in_python(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = compile_rules(TABLE)
    letters = spark.createDataFrame([], ddl(Kind.DEAD_LETTER))

    frame = letters.select(all_matches(compiled), compiled.first_match(), *compiled.masks())

    frame.explain(extended=True)
    plan = capsys.readouterr().out
    assert "has_dlh" in plan
    assert "Python" not in plan
