"""The report says what the tables say, to somebody who never saw the system, and runs nothing that came from a message.

That its numbers are those of a plain count, all the way from queues, is seen by `test_flights_on_spark`.
"""

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from mqflow.pipeline.dead_letters.triage import RuleUse, Triage
from mqflow.pipeline.report import data as report_data
from mqflow.pipeline.report.charts import PNGS, charts
from mqflow.pipeline.report.data import Report, poison_by, sentences, step_of
from mqflow.pipeline.report.page import page, write_report
from mqflow.pipeline.report.text import isolated, visible
from mqflow.pipeline.schemas import TABLES
from mqflow.pipeline.tables.gold import day_of
from mqflow.pipeline.tables.table_set import TableSet

PAGE = Path(__file__).with_name("page.html")
EVIL = '</script><script>alert(1)</script><img src=x onerror="alert(2)">&{{7*7}}'


def made(text: str = "ValueError", queue: str = "ORDERS.IN", hours: int = 12) -> Report:
    hour = [f"2026-01-01T{at:02}:00:00+00:00" for at in range(hours)]
    return Report(
        first=hour[0], last=hour[-1], messages=12_000, poisoned=340, deliveries=13_100,
        poison_over_time=[
            {"start": at, "end": f"{at[:14]}59:59+00:00", "queue": queue, "handler": handler, "messages": 500, "poisoned": n,
             "poison_rate": n / 500, "deliveries": 550}
            for number, at in enumerate(hour) for handler, n in (("orders", 60 if number == 7 else 4), ("stock", 9))
        ],
        culprits=[
            {"queue": queue, "handler": "orders", "exc_class": text, "deliveries": 800, "poisoned": 250, "since": hour[7]},
            {"queue": queue, "handler": "stock", "exc_class": "KeyError", "deliveries": 300, "poisoned": 90, "since": hour[0]},
        ],
        retry_curve=[
            {"queue": queue, "handler": handler, "attempt_no": at, "entered": 5000 // at, "succeeded": 4500 // at**3,
             "p_success": 0.9 / at**2}
            for handler in ("orders", "stock") for at in (1, 2, 3)
        ],
        alerts=[
            {"hour": hour[7], "queue": queue, "handler": "orders", "messages": 500, "poisoned": 60, "poison_rate": 0.12,
             "expected_rate": 0.008, "score": 28.1, "first_msg_id": "41" * 24, "first_ts": hour[7], "exc_class": text}
        ],
        backout=[{"hour": hour[7], "queue": queue, "n": 60, "p50_ms": 900, "p95_ms": 2_000, "p99_ms": 3_000, "max_ms": 3_100}],
        delays=[
            {"hour": at, "queue": queue, "n": 40, "early": 0, "p50_error_ms": 12, "p99_error_ms": 40 + 9 * number,
             "max_error_ms": 300}
            for number, at in enumerate(hour)
        ],
        dead_letters=[
            {"dlq": "DEAD.LETTERS", "reason_name": "MQRC_Q_FULL", "reason_group": "space", "dlh_dest_q": text, "messages": 90,
             "oldest": hour[2], "oldest_s": 3_700, "first_msg_id": "44" * 24}
        ],
        redrives=[
            {"day": "2026-01-01", "queue": queue, "redrive_id": text, "redriven": 50, "succeeded": 44, "poisoned_again": 6,
             "dead_lettered": 0}
        ],
        groups=[
            {"week": "2025-12-29", "queue": queue, "handler": "orders", "exc_class": text, "exc_fingerprint": "f" * 64,
             "deliveries": 800, "messages": 310, "since": hour[0], "first_msg_id": "41" * 24, "last_msg_id": "42" * 24},
        ],
        weeks=[
            {"queue": queue, "handler": "orders", "messages": 6_000, "poisoned": 250, "messages_before": 5_000,
             "poisoned_before": 20},
        ],
        unfinished=[
            {"queue": queue, "handler": "stock", "messages": 7, "oldest": hour[1], "oldest_s": 93_784,
             "first_msg_id": "43" * 24},
        ],
        late_rows=3, letters=90, alarms=1, delayed=40 * hours, early=0, latest_ms=300,
        triage=Triage(
            messages=90, data_bytes=9_000, strays=2, unmatched=8, unmatched_bytes=800, unmatched_by_day=((None, 8),),
            rules=(use(1, 80, 80), use(2, 0, 5)),
        ),
    )  # fmt: skip


def use(number: int, first: int, matching: int) -> RuleUse:
    taken = ((1, matching),) if not first else ()
    return RuleUse(
        number=number, line=number, action="RETRY", first=first, first_bytes=0, matching=matching,
        oldest=datetime(2026, 1, 1), taken_by=taken,  # noqa: DTZ001 - as Spark gives them
    )  # fmt: skip


class Seen(HTMLParser):
    """The contents that a browser finds in a page: the tags, their attributes and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_needs_nothing_else_and_pictures_and_numbers_lie_beside_it(tmp_path: Path) -> None:
    path = write_report(made(), tmp_path)

    text = path.read_text()
    assert not re.search(r"""(?:src|href)=["']?https?:|@import|url\(""", text.replace("xlink:href", ""))
    assert {f"{name}-{theme}.png" for name in PNGS for theme in ("light", "dark")} == {
        each.name for each in (tmp_path / "png").iterdir()
    }
    assert 12_000 == json.loads((tmp_path / "report.json").read_text())["messages"]
    for said in ("12,000 messages were handled", "340 of them (2.83%) are poison", "never first: rule 1 takes all it matches"):
        assert said in text


def test_text_of_messages_runs_nothing(tmp_path: Path) -> None:
    seen = Seen()

    seen.feed(write_report(made(EVIL, EVIL), tmp_path).read_text())

    assert not {"script", "img", "iframe", "object"} & set(seen.tags)
    assert not [name for name in seen.attributes if name.startswith("on")]
    assert EVIL in "".join(seen.texts)


def tags_on_lines(text: str) -> str:
    """Return a page with a tag on each line."""
    return re.sub(r"\s*>\s*<", ">\n<", re.sub(r"\s+<|>\s+", lambda found: found[0].strip(), text)).strip()


def test_the_page_is_the_one_that_was_checked_by_eye() -> None:
    drawn = {(name, theme): f"<svg>{name} {theme}</svg>" for name in ("poison", "delays") for theme in ("light", "dark")}

    assert PAGE.read_text("utf-8").strip() == tags_on_lines(page(made(EVIL, EVIL), drawn))


NOTHING = Report(
    first="", last="", messages=0, poisoned=0, deliveries=0, poison_over_time=[], culprits=[], retry_curve=[], alerts=[],
    backout=[], delays=[], dead_letters=[], redrives=[], late_rows=0,
)  # fmt: skip


def test_a_report_without_messages_says_so_and_leaves_no_older_picture(tmp_path: Path) -> None:
    write_report(made(), tmp_path)

    text = write_report(NOTHING, tmp_path).read_text()

    assert "No handler got a message" in text
    assert "From " not in text
    assert [] == list((tmp_path / "png").iterdir())


def test_a_report_of_dead_letters_alone_names_their_reasons_and_the_actions_of_the_rules() -> None:
    """A dead-letter queue is landed long before anybody records decisions."""
    sample = made()
    letters = replace(NOTHING, dead_letters=sample.dead_letters, letters=123, triage=sample.triage)

    said = " ".join(sentences(letters))

    assert "123 dead letters arrived; most often MQRC_Q_FULL for ValueError (90)" in said  # of all, not of the reasons shown
    assert "The rules would act on 80 of 90 dead letters; no rule matches the other 10" in said


def test_what_a_rule_leaves_is_not_what_the_rules_act_on() -> None:
    sample = made()
    assert sample.triage is not None
    ignoring = replace(sample.triage, rules=(use(1, 50, 50), replace(use(2, 30, 30), action="IGNORE")))

    assert "would act on 50 of 90 dead letters; IGNORE leaves 30, and no rule matches the other 10" in " ".join(
        sentences(replace(sample, triage=ignoring))
    )


def test_one_of_a_thing_is_one() -> None:
    sample = made()
    one = replace(
        sample, messages=1, poisoned=1, deliveries=1, letters=1, late_rows=1, delayed=1,
        culprits=[row | {"poisoned": 1} for row in sample.culprits],
    )  # fmt: skip

    said = " ".join(sentences(one))

    for each in ("1 message was handled, and 1 of them (100.00%) is poison", "0 of 1 delivery", "Most poison, 1 message,"):
        assert each in said
    for each in ("1 dead letter arrived", "1 record landed", "1 message delay ended"):
        assert each in said


def test_retries_of_which_none_succeeded_are_a_table_and_no_empty_drawing() -> None:
    sample = made()

    assert "retries" not in charts(replace(sample, retry_curve=[row | {"succeeded": 0} for row in sample.retry_curve]), "light")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ORDERS.IN", "ORDERS.IN"),
        ("Größe 日本", "Größe 日本"),
        ("a\u202e001\x1b[31m\x00\ud800", "a\\u202e001\\u001b[31m\\u0000\\ud800"),  # turns what follows around, and colours it
        ("x" * 5_000, "x" * 197 + "..."),
        ("שגיאה", "\u2068שגיאה\u2069"),  # noqa: RUF001 - written from right to left, but not what stands beside it
    ],
)
def test_a_text_from_outside_can_be_seen_and_turns_nothing_around(text: str, expected: str) -> None:
    assert expected == isolated(visible(text))


def test_odd_names_are_drawn_and_written(tmp_path: Path) -> None:
    odd = "שגיאה.\u202e\x00" + "x" * 400

    text = write_report(made(odd, odd), tmp_path).read_text()

    assert not {"\u202e", "\x00"} & set(text)
    assert 8 == len(list((tmp_path / "png").iterdir()))


@pytest.mark.parametrize(
    "said",
    [
        "1,100 of 13,100 deliveries (8.4%) were retries",
        "Most poison, 250 messages, came from ValueError in handler orders on ORDERS.IN, since 2026-01-01 07:00",
        "beginning with message " + "41" * 24,
        "90 dead letters arrived; most often MQRC_Q_FULL",
        "The rules would act on 80 of 90 dead letters",
        "480 message delays ended, 0 of them early",
        "In the last seven days 250 of 6,000 ended messages were poison; in the seven days before, 20 of 5,000",
        "3 records landed after their time windows had closed",
    ],
)
def test_the_page_says_the_important_facts_in_sentences(said: str) -> None:
    assert said in " ".join(sentences(made()))


def many(queues: int) -> Report:
    """As `made`, with so many queues, which have long names."""
    sample = made()
    names = [f"APPLICATION.{number:02}.QUEUE.WITH.A.LONG.NAME.IN" for number in range(queues)]
    return replace(
        sample,
        poison_over_time=[row | {"queue": name} for name in names for row in sample.poison_over_time],
        retry_curve=[row | {"queue": name} for name in names for row in sample.retry_curve],
        backout=[row | {"queue": name} for name in names for row in sample.backout],
    )


def test_a_page_of_sixty_queues_names_the_worst_and_counts_the_others_together() -> None:
    drawn = charts(many(60), "light")["poison"].to_dict()

    values = drawn["datasets"][drawn["layer"][0]["data"]["name"]]
    assert 6 == len({row["series"] for row in values})
    assert "all others" in {row["series"] for row in values}
    assert sum(row["poisoned"] for row in many(60).poison_over_time) == sum(row["to"] - row["from"] for row in values)


def test_queues_whose_long_names_begin_alike_have_different_short_names() -> None:
    sample = made()
    names = [f"APPLICATION.OF.SOMEBODY.WITH.A.LONG.NAME.{end}" for end in ("IN", "OUT")]
    report = replace(sample, poison_over_time=[row | {"queue": name} for name in names for row in sample.poison_over_time])

    drawn = charts(report, "light")["poison"].to_dict()

    assert 4 == len({row["series"] for row in drawn["datasets"][drawn["layer"][0]["data"]["name"]]})


def test_long_tables_are_cut_on_the_page_and_whole_beside_it(tmp_path: Path) -> None:
    text = write_report(many(60), tmp_path).read_text()

    assert "And 48 more, in report.json." in text
    assert 60 == len(json.loads((tmp_path / "report.json").read_text())["backout"])


def test_one_queue_and_one_step_make_a_page_without_the_charts_that_would_be_empty(tmp_path: Path) -> None:
    sample = made()
    report = replace(
        sample, step="5 minutes", poison_over_time=sample.poison_over_time[:1], retry_curve=sample.retry_curve[:1], alerts=[],
        delays=[], redrives=[], triage=None,
    )  # fmt: skip

    write_report(report, tmp_path)

    assert {"poison-dark.png", "poison-light.png", "culprits-dark.png", "culprits-light.png"} == {
        path.name for path in (tmp_path / "png").iterdir()
    }


@pytest.mark.parametrize(
    ("hours", "step"), [(0, "5 minutes"), (6, "5 minutes"), (7, "1 hour"), (240, "1 hour"), (241, "1 day"), (9_000, "1 day")]
)
def test_the_steps_grow_with_the_time(hours: int, step: str) -> None:
    first = datetime(2026, 1, 1)  # noqa: DTZ001 - as Spark gives them

    assert step == step_of(first, first + timedelta(hours=hours))


def test_the_figure_of_poison_begins_at_the_first_event_and_not_at_the_first_poison() -> None:
    """An earlier window would show a time in which nothing could be counted; a later one would hide good times."""
    hour = [f"2026-01-01T{at:02}:00:00+00:00" for at in (3, 4, 5)]
    rows = [
        {"start": at, "end": end, "queue": "Q", "handler": "h", "messages": 9, "poisoned": n, "deliveries": 9, "poison_rate": 0}
        for at, end, n in ((hour[0], hour[1], 1), (hour[1], hour[2], 2))
    ]
    first = "2026-01-01T03:24:00+00:00"

    drawn = charts(replace(made(), first=first, poison_over_time=rows, alerts=[]), "light")["poison"].to_dict()
    alerts = [made().alerts[0] | {"hour": hour[0]}]
    marked = charts(replace(made(), first=first, poison_over_time=rows, alerts=alerts), "light")["poison"].to_dict()

    def times(chart: dict[str, Any]) -> list[str]:
        return [datetime.fromtimestamp(each / 1_000, UTC).isoformat() for each in chart["encoding"]["x"]["scale"]["domain"]]

    assert [first, hour[2]] == times(drawn)
    assert {(first, hour[1]), (hour[1], hour[2])} == {
        (row["start"], row["end"]) for row in drawn["datasets"][drawn["data"]["name"]]
    }
    assert first == marked["datasets"][marked["layer"][1]["data"]["name"]][0]["at"]
    later = charts(replace(made(), first=hour[0], poison_over_time=rows[1:], alerts=[]), "light")["poison"].to_dict()
    assert [hour[0], hour[2]] == times(later)


def test_every_message_that_the_page_names_has_the_command_that_explains_it(tmp_path: Path) -> None:
    text = write_report(made(), tmp_path).read_text()

    plain = text.replace("<wbr>", "")
    for byte in ("41", "42", "43", "44"):
        assert f'<li id="m{byte * 24}"><code>mqflow why {byte * 24}</code></li>' in plain
        assert f'<a href="#m{byte * 24}">' in plain
    assert f'<td class=n><a href="#m{"41" * 24}">310</a></td>' in plain, "the number leads to its messages"
    assert "1 d 2 h" in text


@pytest.fixture
def elsewhere(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine, and a session, that are not in UTC."""
    before = spark.conf.get("spark.sql.session.timeZone")
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        yield
    time.tzset()
    spark.conf.set("spark.sql.session.timeZone", str(before))


def window(hour: datetime) -> tuple[datetime, datetime]:
    return hour, hour + timedelta(hours=1)


def test_a_report_gathers_the_latest_rows_in_utc_and_the_totals_of_all_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: None, interpreted: None
) -> None:
    """In the night in which one hour is there twice, where the machine is."""
    monkeypatch.setattr(report_data, "ROWS_MAX", 3)
    hours = [datetime(2026, 11, 1, at, tzinfo=UTC) for at in range(3, 8)]
    silver, gold = TableSet(tmp_path / "silver"), TableSet(tmp_path / "gold")
    wanted = {
        "delay_accuracy": [(window(at), "Q", 10, 1, 5, 9, 100 - number) for number, at in enumerate(hours)],
        "poison_alert": [
            (window(at), "QM1", "Q", "h", 9, 5, 0.5, 0.1, 90, 8.0, b"m", at, "E") for at in hours
        ],
        "retry_curve": [],
    }  # fmt: skip
    with gold.next() as run:
        for name, rows in wanted.items():
            run.write(name, spark.createDataFrame(rows, TABLES[name].ddl))
    columns = TABLES["dead_letter"].columns
    letter = {"has_dlh": True, "dlq": "DLQ", "reason_name": "R", "dlh_put_ts": hours[0]}
    letters = [tuple((letter | {"dlh_dest_q": f"Q{number}"}).get(name) for name in columns) for number in range(14)]
    columns = TABLES["attempt"].columns
    attempts = [tuple({"attempts": at, "event_ts": hours[at]}.get(name) for name in columns) for at in (1, 2, 4)]
    with silver.next() as run:
        run.write("dead_letter", spark.createDataFrame(letters, TABLES["dead_letter"].ddl))
        run.write("attempt", spark.createDataFrame(attempts, TABLES["attempt"].ddl))

    def in_between(first: datetime | None, last: datetime | None) -> str:
        """Another process ends a run of silver, while the report reads."""
        with silver.next() as run:
            run.write("dead_letter", silver.empty(spark, "dead_letter"))
        return step_of(first, last)

    monkeypatch.setattr(report_data, "step_of", in_between)
    report = report_data.gather(spark, gold, silver)

    assert [f"2026-11-01T0{at}:00:00+00:00" for at in (5, 6, 7)] == [row["hour"] for row in report.delays]
    assert (7, f"{hours[1].isoformat()}", f"{hours[4].isoformat()}") == (report.deliveries, report.first, report.last)
    assert (50, 5, 100) == (report.delayed, report.early, report.latest_ms)
    assert (3, 5) == (len(report.alerts), report.alarms)
    assert (14, 3) == (report.letters, len(report.dead_letters))
    assert "2026-11-01T03:00:00+00:00" == report.dead_letters[0]["oldest"]
    assert {"delay_accuracy", "poison_alert"} <= set(report.cut)


def test_days_are_the_sums_of_their_hours(spark: SparkSession, elsewhere: None, interpreted: None) -> None:
    hours = [datetime(2026, 1, 1, 2, tzinfo=UTC), datetime(2026, 1, 1, 23, tzinfo=UTC), datetime(2026, 1, 2, 0, tzinfo=UTC)]
    columns = "queue string, handler string, exc_class string, messages bigint, poisoned bigint, deliveries bigint"
    rows = [(window(at), "Q", "h", None, 10 + n, 1 + n, 20) for n, at in enumerate(hours)]
    rates = spark.createDataFrame(rows, f"window struct<start: timestamp, end: timestamp>, {columns}")

    found = poison_by(rates, "1 day").collect()

    counts = [(row["messages"], row["poisoned"], row["deliveries"]) for row in found]
    assert [(21, 3, 40), (12, 3, 20)] == counts
    assert [1, 2] == [row["start"].astimezone(UTC).day for row in found]
    assert [2, 3] == [row["end"].astimezone(UTC).day for row in found]
    assert [date(2026, 1, 1), date(2026, 1, 2)] == [
        row["day"] for row in rates.select(day_of("window.start").alias("day")).distinct().orderBy("day").collect()
    ]
