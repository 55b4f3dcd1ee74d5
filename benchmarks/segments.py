"""`python -m benchmarks.segments`: the cost of one segment in each format: to write, to keep, and to read in Python.

Processor time for each message, the best of several rounds. Decision 0065 has the results.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from time import process_time
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqflow.journal import Kind, arrow_schema
from mqflow.journal.rows import Position, columns
from mqflow.journal.segment_data import Link, decode_table, encode
from mqflow.testing.journals import START_US, invented

__all__ = ("FORMATS", "best_us")

_LINK: Final = Link(journal="J", lane="L", number=1)
_BODY_BYTES: Final = 300


def _table(kind: Kind, made: Mapping[str, Any]) -> Any:  # Any: pyarrow has no types
    return pa.table({field.name: pa.array(made[field.name], field.type) for field in arrow_schema(kind)})


def _arrow(kind: Kind, made: Mapping[str, Any]) -> bytes:
    table, sink = _table(kind, made), pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _parquet(kind: Kind, made: Mapping[str, Any]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(_table(kind, made), sink, compression="zstd")
    return bytes(sink.getvalue())


def _segment(kind: Kind, made: Mapping[str, Any]) -> bytes:
    return encode(kind, made, _LINK).data


def _read_arrow(_: Kind, data: bytes) -> None:
    pa.ipc.open_file(pa.BufferReader(data)).read_all()


def _read_parquet(_: Kind, data: bytes) -> None:
    pq.read_table(pa.BufferReader(data), use_threads=False)


def _read_segment(kind: Kind, data: bytes) -> None:
    decode_table(data, kind, where="memory")


FORMATS: Final[Mapping[str, tuple[Callable[[Kind, Mapping[str, Any]], bytes], Callable[[Kind, bytes], None]]]] = {
    "Arrow IPC, zstd": (_arrow, _read_arrow),
    "Parquet, zstd, dictionaries for all columns": (_parquet, _read_parquet),
    "a segment of the journal": (_segment, _read_segment),
}
"""How each format is written and read."""


def best_us(work: Callable[[], object], rows: int, rounds: int) -> float:
    """Return the microseconds of processor time for each row, in the best round."""
    work()
    found = []
    for _ in range(rounds):
        began = process_time()
        work()
        found.append((process_time() - began) / rows * 1_000_000)
    return min(found)


def main(arguments: list[str]) -> int:
    """Measure every format with every kind, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.segments", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args(arguments)
    at = Position(lane="L", segment=1, landed_us=START_US, queue="Q", queue_manager="QM1")
    print("| kind | format | µs to write | bytes | µs to read |\n|---|---|---|---|---|")
    for kind in Kind:
        made = columns(kind, invented(kind, given.rows, seed=1, body_bytes=_BODY_BYTES), at)
        for name, (write, read) in FORMATS.items():
            data = write(kind, made)
            writing = best_us(lambda write=write, kind=kind, made=made: write(kind, made), given.rows, given.rounds)  # type: ignore[misc]  # mypy cannot infer the defaults
            reading = best_us(lambda read=read, kind=kind, data=data: read(kind, data), given.rows, given.rounds)  # type: ignore[misc]  # as above
            print(f"| {kind} | {name} | {writing:.2f} | {len(data) / given.rows:.1f} | {reading:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
