"""`mqflow spark redrive` for the campaign: its table, its command, and a program that forgets its position.

Run as a program, ``python -m tests.pipeline.dead_letters.redrive_process forgetful|redrive ARGUMENT...``, it runs that
command with these arguments.
"""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from mqflow.cli.main import main
from mqflow.journal.rows import Position, columns
from mqflow.journal.schemas import Kind, arrow_schema
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Persistence
from mqflow.pipeline.dead_letters import redrive
from mqflow.policy.poison import moved_message
from mqflow.verbs import Got
from tests.pipeline import jvm
from tests.pipeline.killing.names import TARGETS

__all__ = ("command", "make_letters")

AT = datetime(2026, 1, 2, tzinfo=UTC)
ROWS = 500


def make_letters(tables: Path, count: int) -> None:
    """Make a bronze table with this many dead letters, numbered from 0, in two lanes."""
    folder = tables / "bronze" / "dead_letter"
    (tables / "bronze").mkdir(parents=True)
    schema = arrow_schema(Kind.DEAD_LETTER)
    for segment, first in enumerate(range(0, count, ROWS), 1):
        lane = "AB"[segment % 2]
        position = Position(lane=lane, segment=segment, landed_us=0, queue=lane, queue_manager="QM1")
        made = columns(Kind.DEAD_LETTER, [_letter(number) for number in range(first, min(first + ROWS, count))], position)
        table = pa.table({field.name: pa.array(made[field.name], field.type) for field in schema}, schema=schema)
        write_deltalake(folder, table.append_column("ingest_date", pa.array([AT.date()] * table.num_rows)), mode="append")


def _letter(number: int) -> Got:
    described = MessageDescriptor(message_id=number.to_bytes(24), persistence=Persistence.PERSISTENT)
    target = TARGETS["redrive"]
    descriptor, data = moved_message.to_dead_letter_queue(
        described, b"%d" % number, reason=2053, queue=target, queue_manager="", application_name="put", now=AT
    )
    return Got(descriptor=descriptor, body=data, data_bytes=len(data))


def command(design: str, tables: Path, url: str) -> Sequence[str]:
    """Return the words of the command line."""
    to = ("--to", TARGETS[design]) if design == "forgetful" else ()
    options = ("--where", "true", "--unit", "20", "--id", design, *to, "--url", url, "--master", "local[2]")
    quick = ("--conf", f"spark.driver.extraJavaOptions={jvm.options()}")
    module = ("tests.pipeline.dead_letters.redrive_process", design)
    return ("-m", *module, "spark", "redrive", "--tables", str(tables), *options, *quick)


if __name__ == "__main__":
    if sys.argv[1] == "forgetful":
        redrive._is_done = lambda marker, row: not (marker and row)  # each is something
    main(sys.argv[2:])
