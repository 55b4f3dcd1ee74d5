"""The stages of a stream without a Spark: the arguments of their jobs, and what a stage says about its result."""

from typing import Any

import pytest

from mqflow.journal import Kind
from mqflow.pipeline.stream.stages import Job, run_stage
from mqflow.pipeline.tables.bronze import WrittenTable
from mqflow.policy.stream.rounds import Stage, Taken


def test_bronze_takes_one_commit_of_each_kind_and_says_which_rows_a_new_table_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    written = (
        WrittenTable(Kind.DEAD_LETTER, 5, 1, "/t/dead_letter", more=True, lacking={"B.DLQ": 2, "A.DLQ": 3}),
        WrittenTable(Kind.PAYLOAD, 2, 1, "/t/payload"),
    )

    def bronze(*_: object, **options: Any) -> tuple[WrittenTable, ...]:
        asked.append(options)
        return written

    monkeypatch.setattr("mqflow.pipeline.jobs.bronze", bronze)
    spark: Any = object()

    taken = run_stage(spark, Job(journal="j", tables="t", payload="hash", consumer="audit"), Stage.BRONZE)

    assert {"payload": "hash", "consumer": "audit", "batches_max": 1}.items() <= asked[0].items()
    lacking = (
        "The new table /t/dead_letter lacks the rows of segments that were trimmed: A.DLQ to segment 3, B.DLQ to segment 2."
    )
    assert Taken(7, more=True, said=lacking) == taken
