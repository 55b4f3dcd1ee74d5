"""The frame of the command line: help, exit codes, and errors that are sentences."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from mqflow.app.run.decision_ledger import DecisionLedger
from mqflow.cli.main import main
from mqflow.cli.text.exit_codes import EXIT_CODES
from mqflow.events import WaitsOnQueue
from tests.cli.conftest import Run


def test_help_lists_every_command_and_every_exit_code(run: Run) -> None:
    shown = run("--help").stdout

    assert [] == [name for name in main.list_commands(click.Context(main)) if name not in shown]
    assert [] == [code for code in EXIT_CODES if f"{code:>5}  " not in shown]


@pytest.mark.parametrize("name", ["run", "put", "get", "browse", "why", "mqsc", "explain", "init", "doctor"])
def test_every_command_has_help(run: Run, name: str) -> None:
    result = run(name, "--help")

    assert 0 == result.exit_code
    assert f"Usage: main {name}" in result.stdout


def test_columns_of_a_help_page_stay_columns(run: Run) -> None:
    shown = run("browse", "--help").stdout

    assert "\n    --where priority=9             a field of the descriptor\n" in shown
    assert "\\b" not in shown


@pytest.mark.parametrize("group", ["ccdt", "delay", "dlq", "journal", "qmgr", "spark", "standin"])
def test_no_line_of_a_group_is_cut_off(run: Run, group: str) -> None:
    assert "...\n" not in run(group, "--help").stdout.partition("\nCommands:\n")[2]


@pytest.mark.parametrize("group", ["", "ccdt", "ctl", "delay", "dlq", "journal", "qmgr", "spark", "standin"])
def test_the_help_of_a_group_fits_a_narrow_terminal_and_nothing_is_cut_off(group: str) -> None:
    shown = CliRunner().invoke(main, [*filter(None, [group]), "--help"], terminal_width=60)
    lines = shown.stdout.splitlines()

    assert ([], []) == ([line for line in lines if len(line) > 60], [line for line in lines if line.endswith("...")][1:])


def test_a_mistyped_command_gets_a_similar_name(run: Run) -> None:
    assert "No such command 'gte'. Did you mean get?" in run("gte", "Q").stderr
    assert "No such command 'wombat'.\n" in run("wombat").stderr


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_color_and_a_terminal_without_escapes_remove_the_colours(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("MQFLOW_URL", "embedded::memory:?qmgr=QM1")
    monkeypatch.setenv("TERM", "xterm")
    coloured = CliRunner().invoke(main, ["mqsc"], input="DEFINE QLOCALE(Q)", color=True).output
    monkeypatch.setenv(name, value)
    plain = CliRunner().invoke(main, ["mqsc"], input="DEFINE QLOCALE(Q)", color=True).output

    assert "\x1b[31m" in coloured
    assert "\x1b" not in plain


@pytest.mark.parametrize(
    ("target", "meant"),
    [
        ("app.py", "app:app"),
        ("./app.py:orders", "app:orders"),
        ("shop/app.py:orders", "shop.app:orders"),
        ("", "app:app"),
        (":orders", "app:orders"),
        (".", "app:app"),
    ],
)
def test_a_file_instead_of_a_module_gets_the_module_name(run: Run, target: str, meant: str) -> None:
    result = run("run", target)

    assert 2 == result.exit_code
    assert f"{meant}?" in result.stderr


def test_a_missing_settings_file_is_an_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQFLOW_CONFIG", "nowhere.toml")

    assert "from MQFLOW_CONFIG: there is no file nowhere.toml." in run("doctor").stderr


def test_python_m_mqflow_is_the_command() -> None:
    shown = subprocess.run([sys.executable, "-m", "mqflow", "--version"], capture_output=True, text=True, check=True).stdout

    assert f"mqflow {version('mqflow')}," in shown


@pytest.mark.parametrize("command", ["", "run"])
def test_help_imports_no_engine_and_no_application(command: str) -> None:
    words = [*command.split(), "--help"]
    script = f"import sys; from mqflow.cli.main import main; main({words}, standalone_mode=False); print(*sys.modules)"

    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    unwanted = {"sqlite3", "anyio", "opentelemetry.trace", "rich", "msgspec", "mqflow.cli.messages.put", "mqflow.app"}
    assert set() == unwanted & set(shown.splitlines()[-1].split())


def test_a_refusal_of_the_queue_manager_is_a_sentence_and_exit_code_1(run: Run, queues: None) -> None:
    result = run("get", "NOWHERE")

    assert 1 == result.exit_code
    assert result.stderr.startswith("mqflow: MQOPEN on NOWHERE (QM1) failed: MQRC_UNKNOWN_OBJECT_NAME (2085).")
    assert "Traceback" not in result.stderr


def test_debug_shows_the_traceback_of_an_error(run: Run, queues: None) -> None:
    assert "UNKNOWN_OBJECT_NAME" in repr(run("--debug", "get", "NOWHERE").exception)


@pytest.mark.parametrize("words", [("get", "Q"), ("dlq", "run", "Q"), ("explain", "bare_shop:app"), ("mqsc", "bare_shop:app")])
@pytest.mark.parametrize("exists", [False, True])
def test_a_misspelt_folder_does_not_become_a_queue_manager(
    run: Run, tmp_path: Path, words: tuple[str, ...], *, exists: bool
) -> None:
    (tmp_path / "bare_shop.py").write_text("from mqflow import App\napp = App()\n")
    if exists:
        (tmp_path / "dta").mkdir()

    result = run(*words, "--url", "embedded:./dta", stdin="ACTION(RETRY)")

    assert (0 if "explain" in words else 2) == result.exit_code
    assert "there is no queue manager at dta yet" in result.stderr
    assert (exists, []) == ((tmp_path / "dta").exists(), list(tmp_path.glob("dta/*")))


def test_a_url_that_leads_nowhere_is_wrong_usage(run: Run) -> None:
    assert 2 == run("get", "Q", "--url", "http://example.com").exit_code


def test_a_wrong_setting_is_wrong_usage(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQFLOW_DRAIN_S", "soon")

    result = run("doctor")

    assert 2 == result.exit_code
    assert "Setting drain_s from environment (MQFLOW_DRAIN_S)" in result.stderr


def test_the_documentation_lists_every_command_and_every_exit_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()

    assert [] == [name for name in main.list_commands(click.Context(main)) if f"`mqflow {name}" not in page]
    assert [] == [code for code, meaning in EXIT_CODES.items() if f"| {code} | {meaning} |" not in page]


def test_a_file_of_variables_is_weaker_than_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.environ", os.environ | {"MQFLOW_LOG_LEVEL": "error"})
    file = tmp_path / "dev.env"
    file.write_text("\ufeffexport MQFLOW_DRAIN_S='7.5'\n# for the laptop\nMQFLOW_LOG_LEVEL=debug\n")

    CliRunner().invoke(main, ["--env-file", str(file), "reason", "2085"])

    assert ("7.5", "error") == (os.environ["MQFLOW_DRAIN_S"], os.environ["MQFLOW_LOG_LEVEL"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: No such file or directory."),
        ("MQFLOW_URL\n", "MQFLOW_URL has no value. Write MQFLOW_URL=VALUE."),
    ],
)
def test_a_file_of_variables_that_cannot_be_read_is_wrong_usage(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "dev.env"
    if text is not None:
        file.write_text(text)

    done = CliRunner().invoke(main, ["--env-file", str(file), "reason", "2085"])

    assert (2, True) == (done.exit_code, said in done.output)


def test_a_file_of_variables_needs_its_package(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dotenv", None)

    done = run("--env-file", "dev.env", "reason", "2085")

    assert (2, True) == (
        done.exit_code,
        done.stderr.endswith("mqflow: --env-file needs python-dotenv: pip install 'mqflow[env]'.\n"),
    )


def test_an_error_of_an_option_comes_after_the_usage_of_its_command(run: Run) -> None:
    usage = "Usage: main why [OPTIONS] MSGID\nTry 'main why --help' for help.\n\nmqflow: Missing argument 'MSGID'.\n"

    assert (2, "", usage) == ((done := run("why")).exit_code, done.stdout, done.stderr)
    own = run("--url", "embedded:data", "why", "41").stderr
    assert own.startswith("Usage: main [OPTIONS] COMMAND [ARGS]...\nTry 'main --help' for help.\n\nmqflow: No such option")
    assert own.endswith("The options of a command come after its name.\n")


def test_ctrl_c_ends_a_command_with_the_code_of_shells(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mqflow.cli.messages.tail._ledger_of", interrupted)

    assert (130, "") == ((done := run("why", "41")).exit_code, done.output)


class Plugin:
    """A distribution that offers a command."""

    name, version = "shop", "1.2"


def test_a_plugin_adds_its_commands_to_the_help(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        SimpleNamespace(name="book", dist=Plugin),
        SimpleNamespace(name="audit", dist=None),
        SimpleNamespace(name="put", dist=Plugin),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries if group == "mqflow.commands" else [])

    added = run("--help").stdout.partition("Commands of plugins:\n")[2].partition("\n\n")[0]

    assert ["audit", "book   From shop 1.2."] == [line.strip() for line in added.splitlines()]
    listed = main.list_commands(click.Context(main))
    assert (["audit", "book"], 1) == (listed[-2:], listed.count("put"))


def test_the_command_of_a_plugin_must_be_a_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqflow.cli.main._plugin_lines", lambda: {"book": ""})
    monkeypatch.setattr("mqflow.app.config.plugins.find", lambda *_: None)
    made: object = click.Command("book", callback=lambda: click.echo("booked"))
    monkeypatch.setattr("mqflow.app.config.plugins.load", lambda _: made)
    assert "booked\n" == run("book").output

    made = "no command"

    assert run("book").stderr.endswith("mqflow: The plugin command 'book' must be a click command, but is str.\n")


def test_a_group_without_a_command_prints_its_help_on_stderr(run: Run) -> None:
    alone, helped = run("qmgr"), run("qmgr", "--help")

    assert (2, "", helped.stdout) == (alone.exit_code, alone.stdout, alone.stderr)


@pytest.mark.parametrize("words", [("reason", "2035"), ("doctor",), ("why", "6d6d6d6d"), ("tail", "--once")])
def test_sentences_end_between_words_on_a_terminal(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = DecisionLedger(tmp_path / "decisions.db", record="all")
    queue = "SYSTEM.DDELAY.LOCAL.QUEUE"
    ledger(WaitsOnQueue(message_id=b"m" * 24, queue="Q", listener="book", staging_queue=queue, after_s=90.0, backout_count=1))
    ledger.close()
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))

    environment = {**os.environ, "MQFLOW_LEDGER_FILE": str(tmp_path / "decisions.db")}
    environment.pop("COLUMNS", None)
    subprocess.run(
        [sys.executable, "-m", "mqflow", *words], stdout=end, stderr=subprocess.DEVNULL, env=environment, check=False
    )
    os.close(end)
    shown = b"".join(iter(lambda: read(terminal), b"")).decode().splitlines()
    os.close(terminal)

    indented = [line for line in shown if line.startswith("  ")]
    assert indented
    assert [] == [line for line in shown if len(line) > 60]


def read(terminal: int) -> bytes:
    """Return the next bytes of a terminal, or nothing at its end."""
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""
