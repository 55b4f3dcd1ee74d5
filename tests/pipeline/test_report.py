"""The report says what the tables say, to somebody who never saw the system, and runs nothing that came from a message.

That its numbers are those of a plain count, all the way from queues, is seen by `test_flights_on_spark`.
"""

import json
import re
from datetime import datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from mqflow.pipeline.report_charts import PNGS, charts
from mqflow.pipeline.report_data import Report, poison_by, sentences, step_of
from mqflow.pipeline.report_page import write_report
from mqflow.pipeline.triage import RuleUse, Triage

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
             "oldest": hour[2]}
        ],
        redrives=[
            {"day": "2026-01-01", "queue": queue, "redrive_id": text, "redriven": 50, "succeeded": 44, "poisoned_again": 6,
             "dead_lettered": 0}
        ],
        late_rows=3,
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
    """What a browser would find in a page: the tags, their attributes and the text."""

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
    for said in ("12,000 messages were handled", "340 of them (2.83%) are poison", "never first: rules 1 take all it matches"):
        assert said in text


def test_text_of_messages_runs_nothing(tmp_path: Path) -> None:
    seen = Seen()

    seen.feed(write_report(made(EVIL, EVIL), tmp_path).read_text())

    assert not {"script", "img", "iframe", "object"} & set(seen.tags)
    assert not [name for name in seen.attributes if name.startswith("on")]
    assert EVIL in "".join(seen.texts)


def test_nothing_landed_is_said_and_not_drawn(tmp_path: Path) -> None:
    nothing = Report(
        first="", last="", messages=0, poisoned=0, deliveries=0, poison_over_time=[], culprits=[], retry_curve=[], alerts=[],
        backout=[], delays=[], dead_letters=[], redrives=[], late_rows=0,
    )  # fmt: skip

    assert "No message was handled" in write_report(nothing, tmp_path).read_text()


@pytest.mark.parametrize(
    "said",
    [
        "1,100 of 13,100 deliveries (8.4%) were retries",
        "Most poison, 250 messages, came of ValueError in handler orders on ORDERS.IN, since 2026-01-01 07:00",
        "beginning with message " + "41" * 24,
        "90 dead letters came; most often MQRC_Q_FULL",
        "The rules would act on 80 of 90 dead letters",
        "480 delays of messages were over, 0 of them early",
        "3 records landed after their windows were closed",
    ],
)
def test_what_matters_is_said_in_sentences(said: str) -> None:
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


def test_of_sixty_queues_the_worst_are_told_apart_and_the_others_counted_together() -> None:
    drawn = charts(many(60), "light")["poison"].to_dict()

    values = drawn["datasets"][drawn["layer"][0]["data"]["name"]]
    assert 6 == len({row["who"] for row in values})
    assert "all others" in {row["who"] for row in values}
    assert sum(row["poisoned"] for row in many(60).poison_over_time) == sum(row["to"] - row["from"] for row in values)


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


def test_days_are_the_sums_of_their_hours(spark: SparkSession) -> None:
    hours = [datetime(2026, 1, 1, 2), datetime(2026, 1, 1, 23), datetime(2026, 1, 2, 0)]  # noqa: DTZ001 - as above
    window = "window struct<start: timestamp, end: timestamp>"
    rows = [((at, at + timedelta(hours=1)), "Q", "h", None, 10 + n, 1 + n, 20) for n, at in enumerate(hours)]
    rates = spark.createDataFrame(
        rows, f"{window}, queue string, handler string, exc_class string, messages bigint, poisoned bigint, deliveries bigint"
    )

    found = poison_by(rates, "1 day").collect()

    assert [(1, 21, 3), (2, 12, 3)] == [(row["start"].day, row["messages"], row["poisoned"]) for row in found]
    assert [2, 3] == [row["end"].day for row in found]
