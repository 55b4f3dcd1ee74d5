"""Each benchmark works at a small size. The tests check only that there are figures, not their values."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from cProfile import Profile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest

from benchmarks import __main__ as command
from benchmarks import against_the_loop, delays, depth, known_misses, landing, page, producers, served, telemetry_cost, workers
from benchmarks.__main__ import main
from benchmarks.budgets import ADDED_CPU_US, CONSUMING, Consuming
from benchmarks.consumption import framework, raw
from benchmarks.effort import Effort
from benchmarks.floor import floor
from benchmarks.hotspots import Hotspot, hotspots
from benchmarks.known_misses import CLOSED, Miss
from benchmarks.orders import BODY, decode
from benchmarks.page import PAGE
from benchmarks.producers import PRODUCING, Producing, publish, put_in_a_loop, tables
from benchmarks.samples import Pairs, Sample
from benchmarks.tables import Bar, Row, Table, markdown, missed_on, misses
from benchmarks.transports import Transport, durable, in_memory
from mqflow.verbs import Connection, QueueManager
from tests.long import usually


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder on the disk for sockets: their paths have at most 103 bytes."""
    with TemporaryDirectory(prefix="mqflow-") as folder:
        yield Path(folder)


@pytest.mark.parametrize("budget", CONSUMING, ids=lambda budget: f"{budget.goal} {budget.name}")
def test_both_ways_consume_every_message_of_every_transport(
    budget: Consuming, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    messages = 2 * budget.unit_of_work

    samples = [
        raw(budget.make, messages, budget.unit_of_work),
        framework(budget.make, messages, budget.unit_of_work, concurrency=budget.connections),
    ]

    assert [messages, messages] == [sample.messages for sample in samples]
    assert all(sample.wall_s > 0 for sample in samples)


def test_only_the_named_comparisons_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    effort = Effort(pairs=1, share=0.001, patience_s=0, only="embedded, in memory, unit of work 32")

    ratios, added = against_the_loop.tables(effort)

    assert [(1, "embedded, in memory, unit of work 32, 1 connection")] == [row.key for row in ratios.rows]
    assert [(4, "embedded, in memory, unit of work 32, 1 connection")] == [row.key for row in added.rows]


class _Counting:
    """A connection that counts the calls of each verb."""

    def __init__(self, connection: Connection, calls: Counter[str]) -> None:
        self._connection = connection
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._connection, name)

        def counted(*args: Any, **options: Any) -> Any:
            self._calls[name] += 1
            return verb(*args, **options)

        return counted


class _CountingQueueManager:
    def __init__(self, queue_manager: QueueManager, calls: Counter[str]) -> None:
        self._queue_manager = queue_manager
        self._calls = calls

    def connect(self, **options: Any) -> Connection:
        return cast("Connection", _Counting(self._queue_manager.connect(**options), self._calls))


def test_the_loop_takes_a_unit_of_work_in_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    in_memory_calls, durable_calls = Counter[str](), Counter[str]()

    def counted(transport: Transport, calls: Counter[str]) -> Transport:
        @contextmanager
        def opened(messages: int) -> Iterator[QueueManager]:
            with transport(messages) as queue_manager:
                yield cast("QueueManager", _CountingQueueManager(queue_manager, calls))

        return opened

    raw(counted(in_memory, in_memory_calls), 64, 32)
    raw(counted(durable, durable_calls), 64, 32)

    assert 3 == in_memory_calls["exchange_at_once"]  # two units, and the end
    assert 0 == in_memory_calls["get"] == durable_calls["get"]
    assert (2, 2) == (durable_calls["get_many"], durable_calls["commit"])


def test_the_order_is_a_kibibyte_of_twelve_lines() -> None:
    assert (1_024, 12) == (len(BODY), len(decode(BODY).lines))


@pytest.mark.parametrize(
    ("figure", "bar", "said"),
    [
        (0.96, Bar(0.9, 0.95), "moonshot"),
        (0.9, Bar(0.9, 0.95), "met"),
        (0.89, Bar(0.9, 0.95), "**missed**"),
        (5.0, ADDED_CPU_US, "moonshot"),
        (10.0, ADDED_CPU_US, "met"),
        (10.1, ADDED_CPU_US, "**missed**"),
    ],
)
def test_a_goal_is_compared_with_its_figure(figure: float, bar: Bar, said: str) -> None:
    assert said == bar.met(figure)


def test_pairs_compare_each_run_with_its_neighbour() -> None:
    slow, fast = Sample(100, 2.0, 0.4), Sample(100, 1.0, 0.1)

    pairs = Pairs([slow, fast, fast], [fast, fast, fast])

    assert 1.0 == pairs.ratio
    assert 100.0 == pairs.rate
    assert 0.0 == pairs.added_us
    assert 3_000.0 == pytest.approx(Pairs([slow], [fast]).added_us)


@pytest.mark.parametrize(
    ("differences", "median", "least", "most"),
    [
        ([5], 5, 5, 5),
        ([3, -1, 7], 3, -1, 7),
        ([0, 9, 1, 8, 2, 7, 3, 6], 4.5, 1, 8),  # from here, the interval leaves out the outermost differences
        ([*range(100), 10_000], 50, 40, 60),
    ],
)
def test_the_median_of_the_differences_of_pairs_has_an_interval(
    differences: list[float], median: float, least: float, most: float
) -> None:
    fast = Sample(100, 1.0, 0.1)
    slower = [Sample(100, 1.0, 0.1 + difference / 10_000) for difference in differences]

    assert (median, least, most) == pytest.approx(Pairs(slower, [fast] * len(differences)).differences_us)


def test_hotspots_name_the_function_that_takes_the_time() -> None:
    def spin(profile: Profile) -> None:
        profile.enable()
        sum(number * number for number in range(200_000))
        profile.disable()

    assert any("test_benchmarks.py" in hotspot.where for hotspot in hotspots(spin, 1, most=3))


def test_the_page_has_a_place_for_the_figures_and_nothing_else_is_changed() -> None:
    written = PAGE.read_text()

    replaced = page.replaced(written, "the figures")

    assert f"{page.BEGIN}\n\nthe figures\n\n{page.END}" in replaced
    assert written.partition(page.BEGIN)[0] == replaced.partition(page.BEGIN)[0]
    assert written.partition(page.END)[2] == replaced.partition(page.END)[2]


def test_a_page_without_the_place_is_refused() -> None:
    with pytest.raises(ValueError, match="nowhere to write the figures"):
        page.replaced("# Performance\n", "the figures")


@pytest.mark.rare
def test_the_command_measures_every_goal_and_writes_the_page(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(short_path)
    written = short_path / "performance.md"
    written.write_text(f"# Performance\n\n{page.BEGIN}\n{page.END}\n")
    # One of each goal, because the tests above run all of them. The tests of this folder measure the other sections one by one.
    others = {depth.tables, producers.tables, served.tables, workers.tables}
    some = tuple(section for section in command.SECTIONS if section not in others)
    monkeypatch.setattr(command, "SECTIONS", usually(some, long=command.SECTIONS))
    chosen = list({budget.goal: budget for budget in reversed(CONSUMING)}.values())
    monkeypatch.setattr(against_the_loop, "CONSUMING", chosen)
    monkeypatch.setattr(served, "_SETTLED_AFTER_S", 0.1)
    monkeypatch.setattr(telemetry_cost, "_SHORT_PAIRS", 1)

    main(["--pairs", "1", "--processes", "1", "--share", "0.002", "--patience", "0", "--page", str(written)])

    text = written.read_text()
    for goal in (1, 2, 3, 4, 9, 10, 14, 15, 16, 19, 20, *usually((), long=(17, 18))):
        assert f"| {goal} |" in text
    assert "### Misses" in text
    dead = text.partition("### The DLQ handler")[2].partition("###")[0]
    assert ["dead letters, memory", "dead letters, disk"] == [
        row.split("|")[2].strip() for row in dead.splitlines() if "dead letters, " in row
    ]


def _row(goal: int, name: str, figure: float) -> Row:
    return Row(goal=goal, name=name, figure=figure, bar=Bar(0.8, 0.95))


def _exit_code(rows: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: list[Miss]) -> int:
    written = tmp_path / "performance.md"
    written.write_text(f"{page.BEGIN}\n{page.END}\n")
    monkeypatch.setattr(command, "SECTIONS", (lambda _: iter((Table(title="T", figure="ratio", rows=rows),)),))
    monkeypatch.setattr(command, "known_misses", lambda: known)
    monkeypatch.setattr(known_misses, "known_misses", lambda: known)
    return main(["--page", str(written)])


def test_the_command_fails_if_a_miss_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = [Miss(2, "slow", "it is slow", CLOSED)]

    assert 0 == _exit_code([_row(1, "fast", 0.9), _row(2, "slow", 0.5)], tmp_path, monkeypatch, known)
    assert 1 == _exit_code([_row(1, "fast", 0.7), _row(2, "slow", 0.5)], tmp_path, monkeypatch, known)
    assert "goal 1, fast: it is missed" in capsys.readouterr().err


def test_the_command_names_a_known_miss_that_is_met_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 0 == _exit_code([_row(2, "slow", 0.9)], tmp_path, monkeypatch, [Miss(2, "slow", "it is slow", CLOSED)])

    assert "goal 2, slow: it is met now" in capsys.readouterr().err


def test_the_page_shows_each_known_miss_as_missed_and_no_other_row() -> None:
    assert sorted(miss.key for miss in known_misses.known_misses()) == sorted(missed_on(page.judged(PAGE.read_text())))


def test_the_list_of_known_misses_is_closed() -> None:
    late = [miss.key for miss in known_misses.known_misses() if miss.since > CLOSED]

    assert [] == late
    assert all(miss.reason for miss in known_misses.known_misses())


def test_the_page_lists_a_miss_by_name_with_its_cause_and_its_profile() -> None:
    row = Row(goal=2, name="slow", figure=0.5, bar=Bar(0.8, 0.95), why="A call waits.", profile=[Hotspot("file.py:1 f", 1, 2)])

    text = "\n".join(misses([_row(1, "fast", 0.9), row], {}))

    assert "- goal 2, slow: 0.50, and the limit is 0.8. A call waits. **New.**" in text
    assert "| `file.py:1 f` | 1.00 | 2.00 |" in text
    assert "fast" not in text
    assert "A call waits. Known since today." in "\n".join(misses([row], {(2, "slow"): "Known since today."}))


def test_the_missed_rows_of_a_page_are_found() -> None:
    table = Table(title="T", figure="ratio", rows=[_row(1, "fast", 0.9), _row(2, "slow", 0.5), _row(0, "other", 0.1)])

    assert [(2, "slow"), (0, "other")] == missed_on("\n".join(markdown(table)))


def test_a_served_queue_manager_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(tmp_path)

    assert served.fused(20, 1).per_second > 0
    assert served.through(200, 100).per_second > 0
    assert floor(200, 100)[0] > 0
    assert served.shared(32, 4, served=True) > 0
    assert served.shared(32, 4, served=False) > 0


@pytest.mark.rare
def test_a_deep_queue_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    [table] = depth.tables(Effort(pairs=1, share=0.001, patience_s=0.0))

    assert {11, 12} == {row.goal for row in table.rows}
    # A small queue may fit into memory that the process has already.
    assert all(row.figure > 0 for row in table.rows if row.unit != "bytes")
    assert "\n".join(markdown(table))


def test_a_row_shows_its_figure_its_bar_and_the_load_of_other_processes() -> None:
    row = Row(goal=18, name="ratio", cells=("0.90",), figure=0.7, bar=Bar(0.8, 0.95), busy=0.25)

    lines = list(markdown(Table(title="T", columns=("best",), figure="median", rows=[row])))

    assert "| 18 | ratio | 0.90 | 0.70 | 0.8 | 0.95 | **missed** | 25% |" in lines


def test_the_names_of_the_comparisons_are_unique() -> None:
    names = [(budget.goal, budget.name) for budget in CONSUMING]

    assert len(names) == len(set(names))


def test_the_lateness_and_the_cost_of_delayed_messages_are_measured(tmp_path: Path) -> None:
    written = tmp_path / "performance.md"
    written.write_text(PAGE.read_text())

    delays.main(
        ["--rate", "50", "--seconds", "1", "--waiting", "200", "--processors", "2", "--patience", "0", "--page", str(written)]
    )

    rows = [line.split("|")[1:-1] for line in written.read_text().partition(delays.BEGIN)[2].splitlines() if "|" in line]
    assert ["memory", "disk"] == [row[0].strip() for row in rows if row[3].strip() == "50"]
    assert all(int(row[4]) <= int(row[5]) <= int(row[6]) for row in rows if row[3].strip() == "50")
    assert 2 == sum(row[1].strip() == "200" for row in rows)


@pytest.mark.parametrize("count", [1, 2])
def test_worker_processes_consume_all_orders(count: int, short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(short_path)

    assert workers.consumed(200, 32, count).per_second > 0


def test_each_ratio_of_landing_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == landing.main(["--messages", "40", "--rounds", "1", "--call-us", "1"])

    assert 5 == capsys.readouterr().out.count(" a second = ")


@pytest.mark.parametrize("producing", PRODUCING, ids=lambda producing: producing.name)
def test_publishers_and_loop_put_every_message(producing: Producing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    messages = 2 * producing.publishers

    samples = [how(producing.make, messages, producing.publishers) for how in (publish, put_in_a_loop)]

    assert [messages, messages] == [sample.messages for sample in samples]
    assert all(sample.wall_s > 0 for sample in samples)


@pytest.mark.rare
def test_each_number_of_publishers_has_a_row_and_so_has_their_gain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    costs, gain = tables(Effort(pairs=1, share=0.001, patience_s=0))

    assert [producing.name for producing in PRODUCING] == [row.name for row in costs.rows]
    assert 1 == len(gain.rows)
    assert all(row.figure > 0 for table in (costs, gain) for row in table.rows)
