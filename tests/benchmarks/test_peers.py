"""The tables of the peers are made from samples; the programs of mqflow and the command work without the peers."""

import sys
from pathlib import Path

import pytest

from benchmarks.page import PAGE, PEERS_BEGIN, PEERS_END
from benchmarks.peers import __main__ as command
from benchmarks.peers import comparison, runs
from benchmarks.peers.measured import Measured
from benchmarks.peers.runs import EMBEDDED, IN_MEMORY, PROGRAMS, TEST_BROKER, UNITS, Cell, Program, Runner, cells
from benchmarks.peers.servers import missing_packages, versions
from benchmarks.tables import Row

NATS, RABBITMQ, REDIS, TASKIQ, DRAMATIQ, CELERY = PROGRAMS[2:]


def sample(rate: float, *, late_us: float = 100.0, first_ms: float = 100.0, rss_kb: int = 30_000) -> Measured:
    return Measured(
        messages=100, wall_s=100 / rate, cpu_s=0.01, server_s=0.002, rss_kb=rss_kb, first_ms=first_ms, grown_bytes=0.0,
        late_us=[late_us] * 100,
    )  # fmt: skip


def everything(rates: dict[str, float]) -> comparison.Found:
    """Return two rounds of every program; the second round is a tenth faster everywhere."""
    samples = {
        (program.name, cell): [sample(rates.get(program.name, 1_000)), sample(1.1 * rates.get(program.name, 1_000))]
        for program in (*PROGRAMS, IN_MEMORY, TEST_BROKER)
        for cell in cells(program)
    }
    return comparison.Found(samples, sync_us=[50.0, 50.0], import_ms=[(100.0, 400.0), (120.0, 400.0)])


def rows_of(found: comparison.Found) -> list[Row]:
    return [row for table in comparison.goals(found) for row in table.rows]


def test_every_goal_that_names_a_peer_has_a_row() -> None:
    rows = rows_of(everything({}))

    assert {0, 5, 6, 7, 8, 13, 14, 15, 16} == {row.goal for row in rows}
    assert len(rows) == len({row.key for row in rows})
    assert all(row.bar is not None for row in rows)


def test_a_ratio_compares_the_samples_of_one_round() -> None:
    [row] = [row for row in rows_of(everything({UNITS.name: 4_000, NATS.name: 1_000})) if row.goal == 5 and "NATS" in row.name]

    assert 4.0 == pytest.approx(row.figure)
    assert ("4,200 /s", "1,050 /s") == tuple(row.cells)


def test_lateness_is_counted_in_syncs_of_the_disk() -> None:
    [row] = [row for row in rows_of(everything({})) if "p50, in syncs" in row.name]

    assert 2.0 == row.figure


def test_the_table_says_which_side_forces_the_disk_and_shows_the_processor_time_of_the_server() -> None:
    lines = list(comparison.figures(everything({EMBEDDED.name: 2_000})))

    [embedded] = [line for line in lines if line.startswith(f"| {EMBEDDED.name} |")]
    [nats] = [line for line in lines if line.startswith(f"| {NATS.name} |")]
    assert "| yes, each commit | 2,100 (100) |" in embedded
    assert "| no; the server syncs every 2 minutes | 1,050 (100 + 20) |" in nats


def test_goals_without_a_sample_have_no_row() -> None:
    only = {key: samples for key, samples in everything({}).samples.items() if key[0] == EMBEDDED.name}

    assert [] == rows_of(comparison.Found(only))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cell", [Cell("consume", 2), Cell("put", 2), Cell("both", 2), Cell("late", 1, 20)])
@pytest.mark.parametrize("program", [EMBEDDED, UNITS], ids=lambda program: program.name)
def test_the_program_of_mqflow_measures_every_work(program: Program, cell: Cell, tmp_path: Path) -> None:
    measured = Runner(Path(sys.executable), {}, tmp_path, messages=64).sample(program, cell)

    assert (cell.messages or 64) == measured.messages
    assert measured.wall_s > 0
    assert measured.cpu_s > 0
    assert (20 if cell.work == "late" else 0) == len(measured.late_us)


def test_a_program_that_fails_names_its_error(tmp_path: Path) -> None:
    broken = Program(name="broken", module="no_such_program", disk="", messages=1)

    with pytest.raises(RuntimeError, match="no_such_program"):
        Runner(Path(sys.executable), {}, tmp_path).sample(broken, Cell("put", 1))


def test_the_command_names_the_packages_that_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "missing_packages", sorted)

    assert 2 == command.main(["--only", "FastStream"])
    assert "missing: nats-server rabbitmq-server redis-server. --install installs them." in capsys.readouterr().err


@pytest.mark.rare
def test_the_command_measures_the_chosen_programs_and_leaves_the_page_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "FOLDER", tmp_path)
    monkeypatch.setattr(runs, "_LATE", 20)
    written = tmp_path / "performance.md"
    written.write_text("nothing")

    command.main(["--only", UNITS.name, "--messages", "64", "--runs", "1", "--patience", "0", "--page", str(written)])

    assert f"| {UNITS.name} | yes, each commit |" in capsys.readouterr().out
    assert "nothing" == written.read_text()


def test_an_unknown_program_is_refused_with_the_names_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == command.main(["--only", "faststream_nats"])

    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("--only 'faststream_nats': no program has this in its name.")
    assert [*(program.name for program in (*PROGRAMS, IN_MEMORY, TEST_BROKER))] == said[1:]


def test_without_a_server_there_is_no_version_of_one() -> None:
    assert "" == versions(set())


def test_an_unknown_package_is_missing() -> None:
    assert ["no-such-server"] == missing_packages({"no-such-server", "sh"})


def test_the_page_has_a_place_for_the_peers() -> None:
    text = PAGE.read_text()

    assert 0 < text.index(PEERS_BEGIN) < text.index(PEERS_END)
