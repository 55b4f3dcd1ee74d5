"""The tables of the peers: one with every figure, and one with the goals that compare mqflow with a peer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Final

from msgspec import Struct

from benchmarks.hotspots import Hotspot
from benchmarks.peers.measured import Measured
from benchmarks.peers.runs import EMBEDDED, IN_MEMORY, PROGRAMS, TEST_BROKER, UNITS, Cell, Program, cells
from benchmarks.tables import Bar, Row, Table

__all__ = ("Found", "figures", "goals")

_WORKS: Final = {"consume": "consume, {} worker{}", "put": "put, {} publisher{}", "both": "put + consume, {} publisher{}"}
_NATS, _RABBIT, _REDIS, _TASKIQ, _DRAMATIQ, _CELERY = PROGRAMS[2:]
_FIRST: Final = next(cell for cell in cells(EMBEDDED) if cell.messages == 1)
_LATE: Final = next(cell for cell in cells(EMBEDDED) if cell.work == "late")

Samples = Mapping[tuple[str, Cell], Sequence[Measured]]


class Found(Struct, frozen=True):
    """Everything that a run measured, in rounds: figures of one index belong to one round."""

    samples: Samples
    #: The time of an append of a kibibyte and its `fdatasync`, in microseconds.
    sync_us: Sequence[float] = ()
    #: The functions in which the time of mqflow goes, by program and cell, from a sample of its own.
    profiles: Mapping[tuple[str, Cell], Sequence[Hotspot]] = {}
    #: The time of a process that imports mqflow's `App`, and of a process that imports `faststream.nats`, in milliseconds.
    import_ms: Sequence[tuple[float, float]] = ()


def figures(found: Found) -> Iterator[str]:
    """Yield the lines of the table with the rates, and the processor time of client and server."""
    shown = [program for program in PROGRAMS if any(name == program.name for name, _ in found.samples)]
    columns = [Cell(work, width) for work in _WORKS for width in (1, 32)]
    yield "### Beside other frameworks: consume, put, put + consume"
    yield ""
    yield (
        "A cell has the messages a second. In brackets is the processor time of a message in microseconds: client + "
        "server. With mqflow's embedded queue manager, one process is both client and server. *Put + consume* has one worker."
    )
    yield ""
    heads = [_WORKS[cell.work].format(cell.width, "" if cell.width == 1 else "s") for cell in columns]
    yield f"| | on the disk before the answer | {' | '.join(heads)} |"
    yield "|---" * (len(heads) + 2) + "|"
    for program in shown:
        yield f"| {program.name} | {program.disk} | {' | '.join(_rates(found.samples, program, cell) for cell in columns)} |"
    yield ""


def _rates(samples: Samples, program: Program, cell: Cell) -> str:
    measured = samples.get((program.name, cell))
    if not measured:
        return ""
    rate, client, server = median(map(_rate, measured)), median(map(_client_us, measured)), median(map(_server_us, measured))
    return f"{rate:,.0f} ({client:.0f}{f' + {server:.0f}' if program.server else ''})"


def goals(found: Found) -> Iterator[Table]:
    """Yield the table of the goals whose figures this run has. A ratio is the median of the ratios of the rounds."""
    rows = [row for row in _rows(found) if row is not None]
    if rows:
        yield Table(
            title="The goals that compare mqflow with a peer",
            before="Ratios are medians of all rounds. mqflow commits each message alone, unless the row has a unit of work.",
            columns=("mqflow", "the peer"),
            figure="ratio or figure",
            rows=rows,
        )


def _rows(found: Found) -> Iterator[Row | None]:
    one, sixteen = Cell("consume", 1), Cell("consume", 16)
    for peer, bar in ((_NATS, Bar(4, 5)), (_RABBIT, Bar(6, 8)), (_REDIS, Bar(9, 12))):
        yield _ratio(found, 5, f"consume, unit of work 32, 1 worker, over {peer.name}", (UNITS, one), (peer, one), bar)
    yield _ratio(found, 6, f"consume, 1 worker, over {_NATS.name}", (EMBEDDED, one), (_NATS, one), Bar(0.4, 0.5))
    yield _ratio(found, 6, f"consume, 16 workers, over {_NATS.name} with 1", (EMBEDDED, sixteen), (_NATS, one), Bar(2, 3.5))
    for peer, bar in ((_TASKIQ, Bar(10, 12)), (_DRAMATIQ, Bar(10, 12)), (_CELERY, Bar(25, 40))):
        yield _ratio(found, 7, f"consume, unit of work 32, 1 worker, over {peer.name}", (UNITS, one), (peer, one), bar)
    both = Cell("both", 1)
    name = f"publish and handle in memory, over {TEST_BROKER.name}"
    yield _ratio(found, 8, name, (IN_MEMORY, both), (TEST_BROKER, both), Bar(15, 25))
    growth = Bar(16, 1, at_most=True)
    name = "memory that a handled message leaves"
    yield _figure(found, 8, name, IN_MEMORY, both, lambda each, _: each.grown_bytes, "bytes", growth)
    yield from _lateness(found)
    first = Bar(0.55, 0.40, at_most=True)
    name = f"process start to first durable message, over {_NATS.name}"
    yield _ratio(found, 14, name, (EMBEDDED, _FIRST), (_NATS, _FIRST), first, lambda each: each.first_ms, "ms")
    memory = Bar(0.80, 0.62, at_most=True)
    name = f"memory of a consumer (RSS), over {_NATS.name}"
    yield _ratio(found, 15, name, (EMBEDDED, one), (_NATS, one), memory, lambda each: each.rss_kb * 1_024 / 1e6, "MB")
    if found.import_ms:
        ours, theirs = (median(side) for side in zip(*found.import_ms, strict=True))
        yield Row(
            goal=16,
            name="`from mqflow import App` as a process, over `import faststream.nats`",
            cells=(f"{ours:.0f} ms", f"{theirs:.0f} ms"),
            figure=median(mine / other for mine, other in found.import_ms),
            bar=Bar(0.45, 0.30, at_most=True),
        )
    for publishers, bar in ((1, Bar(1, 1.5)), (32, Bar(1.5, 3))):
        cell = Cell("both", publishers)
        name = f"put + consume, {publishers} publisher{'s' * (publishers > 1)}, over {_NATS.name}"
        yield _ratio(found, 0, name, (EMBEDDED, cell), (_NATS, cell), bar)


def _lateness(found: Found) -> Iterator[Row | None]:
    for part, bar in ((0.5, Bar(4, 3, at_most=True)), (0.99, Bar(8, 5, at_most=True))):

        def in_syncs(each: Measured, number: int, part: float = part) -> float:
            return _quantile(each, part) / found.sync_us[number]

        name = f"durable put to handler at 500 a second, p{part * 100:.0f}, in syncs of the disk"
        yield _figure(found, 13, name, EMBEDDED, _LATE, in_syncs, "", bar) if found.sync_us else None
    name = f"durable put to handler at 500 a second, p50, over {_NATS.name}"
    bar = Bar(1.0, 0.75, at_most=True)
    yield _ratio(found, 13, name, (EMBEDDED, _LATE), (_NATS, _LATE), bar, lambda each: _quantile(each, 0.5), "µs")


def _ratio(
    found: Found,
    goal: int,
    name: str,
    ours: tuple[Program, Cell],
    theirs: tuple[Program, Cell],
    bar: Bar,
    figure: Callable[[Measured], float] | None = None,
    unit: str = "/s",
) -> Row | None:
    figure = figure or _rate
    of = [figure(each) for each in found.samples.get((ours[0].name, ours[1]), ())]
    over = [figure(each) for each in found.samples.get((theirs[0].name, theirs[1]), ())]
    if not of or not over:
        return None
    ratios = [mine / other for mine, other in zip(of, over, strict=True)]
    cells_shown = tuple(f"{median(values):,.0f} {unit}" for values in (of, over))
    profile = found.profiles.get((ours[0].name, ours[1]), ())
    return Row(goal=goal, name=name, cells=cells_shown, figure=median(ratios), bar=bar, profile=profile)


def _figure(
    found: Found,
    goal: int,
    name: str,
    program: Program,
    cell: Cell,
    figure: Callable[[Measured, int], float],
    unit: str,
    bar: Bar,
) -> Row | None:
    measured = found.samples.get((program.name, cell))
    if not measured:
        return None
    values = [figure(each, number) for number, each in enumerate(measured)]
    profile = found.profiles.get((program.name, cell), ())
    return Row(goal=goal, name=name, cells=("", ""), figure=median(values), unit=unit, bar=bar, profile=profile)


def _quantile(measured: Measured, part: float) -> float:
    late = sorted(measured.late_us)
    return late[int(len(late) * part)]


def _rate(measured: Measured) -> float:
    return measured.messages / measured.wall_s


def _client_us(measured: Measured) -> float:
    return measured.cpu_s / measured.messages * 1e6


def _server_us(measured: Measured) -> float:
    return measured.server_s / measured.messages * 1e6
