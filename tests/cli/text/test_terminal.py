"""How commands print for people, and read texts."""

import errno
import io
import os
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from mqflow.cli.text.exit_codes import EXIT_FAILED, EXIT_USAGE, epilog, exit_code_of, sentence_of
from mqflow.cli.text.message_view import view
from mqflow.cli.text.terminal import (
    NOTES,
    counted,
    in_foreground,
    note,
    progress,
    read_text,
    safe,
    show_message,
    show_table,
    sparkline,
    wrapped,
)
from mqflow.mqi.descriptor import MessageDescriptor


def test_each_part_of_a_message_stands_after_an_empty_line(capsys: pytest.CaptureFixture[str]) -> None:
    shown = view("ORDERS.IN", MessageDescriptor(format="MQSTR", ccsid=1208), b"hello")

    show_message(shown, 7)

    lines = capsys.readouterr().out.splitlines()
    titles = [*(section.title for section in shown.sections), f"Body ({shown.body_title})"]
    assert "== Message 7 on ORDERS.IN" == lines[0]
    assert titles == [line for before, line in pairwise(lines) if not before and line]


def test_a_long_line_is_wrapped_between_words_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    line = f"07:01  Disposed of: move it {'ab' * 12} now; `mqflow why ab` shows it"

    monkeypatch.setattr(sys, "stdout", Terminal())
    shown = wrapped(line, 7).split("\n")
    monkeypatch.setattr(sys, "stdout", io.StringIO())

    assert [
        "07:01  Disposed of:",
        "       move it",
        f"       {'ab' * 12}",
        "       now;",
        "       `mqflow why ab`",
        "       shows it",
    ] == shown
    assert line == wrapped(line, 7)


def test_a_table_has_a_rule_below_its_columns_and_numbers_on_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("name", "count", "why"), [("Q", "1,000", ""), ("ORDERS", "7", "late\n")], numbers=frozenset({1}))

    expected = ["name    count  why", "------  -----  ------", "Q       1,000", r"ORDERS      7  late\n"]
    assert expected == capsys.readouterr().out.splitlines()


def test_titles_of_tables_and_messages_are_bold_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click._compat.should_strip_ansi", lambda *_, **__: False)
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_, **__: False)

    show_table(("name",), [("Q",)])
    show_message(view("Q", MessageDescriptor(), b""), 1)

    shown = capsys.readouterr().out.splitlines()
    bold = ["name", "== Message 1 on Q", "Message descriptor (MQMD)", "Body (text, 0 bytes)"]
    assert [f"\x1b[1m{title}\x1b[0m" for title in bold] == [line for line in shown if "\x1b" in line]


@pytest.mark.parametrize(("number", "expected"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (2_000, "2,000 rows")])
def test_a_number_has_the_right_noun(number: int, expected: str) -> None:
    assert expected == counted(number, "rows")


@pytest.mark.parametrize(
    ("text", "expected"), [("é a", "é a"), ("a\nb", r"a\nb"), ("\u2028é\x9b", r"\u2028é\x9b"), ("\ue000\n", "\ue000\\n")]
)
def test_only_unsafe_characters_become_escapes(text: str, expected: str) -> None:
    assert expected == safe(text)


class Full(io.StringIO):
    """A file on a full disk."""

    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_note_that_cannot_be_written_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of a queue manager can be on the full disk that an application drains."""
    monkeypatch.setattr(sys, "stderr", Full())

    note("no room")


def test_a_note_goes_to_stderr_or_to_the_log_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    logged: list[str] = []
    note("no command")
    with click.Context(click.Command("run")) as context:
        note("no log")
        context.meta[NOTES] = logged.append
        note("in the log")

    assert ("", "no command\nno log\n") == capsys.readouterr()
    assert ["in the log"] == logged


@pytest.mark.parametrize(
    ("data", "place"), [(b"\xe9", "line 1, column 1 (byte 0xe9)"), (b"a\nbc\xff\n\xfe", "line 2, column 3 (byte 0xff)")]
)
def test_a_text_that_is_not_utf_8_is_refused_with_the_first_place(
    data: bytes, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "text"
    file.write_bytes(data)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    for source, name in ((file, str(file)), (None, "stdin")):
        with pytest.raises(click.ClickException) as refused:
            read_text(source)
        expected = f"{name} is not UTF-8 in {place}. The command did nothing. Save the text as UTF-8."
        assert expected == refused.value.message


def test_a_text_is_read_from_a_file_or_from_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text").write_text("in the file é", encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"on stdin")))

    assert ("in the file é", "on stdin") == (read_text(tmp_path / "text"), read_text(None))


def test_progress_in_a_log_is_a_line_for_each_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Loading", 200) as bar:
        for done in (0, 19, 20, 39, 41, 39, 200):
            bar.reached(done, f"{done} messages")
    with progress("Loading", 0) as bar:
        bar.reached(7, "of an unknown total")

    assert (
        ["Loading: 10 %, 20 messages", "Loading: 20 %, 41 messages", "Loading: 100 %, 200 messages"]
        == capsys.readouterr().err.splitlines()
    )  # fmt: skip


class Terminal(io.StringIO):
    """A text stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("with_rich", "expected"), [(True, "50%"), (False, "Loading: 50 %, half\n")])
def test_progress_on_a_terminal_is_a_bar_if_rich_is_installed(
    monkeypatch: pytest.MonkeyPatch, expected: str, *, with_rich: bool
) -> None:
    if not with_rich:
        monkeypatch.setattr("mqflow.cli.text.terminal.find_spec", lambda _: None)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    with progress("Loading", 8) as bar:
        bar.reached(4, "half")

    shown = terminal.getvalue()
    assert expected in shown if with_rich else expected == shown


@pytest.mark.parametrize(("terminal", "group", "expected"), [(True, 7, True), (True, 8, False), (False, 7, False)])
def test_only_the_foreground_group_of_a_terminal_is_in_the_foreground(
    monkeypatch: pytest.MonkeyPatch, group: int, *, terminal: bool, expected: bool
) -> None:
    monkeypatch.setattr(os, "getpgrp", lambda: 7)
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: group)
    stream = SimpleNamespace(isatty=lambda: terminal, fileno=lambda: 2)

    assert expected is in_foreground(stream)  # type: ignore[arg-type]  # only the two methods that it calls


def test_a_closed_terminal_is_not_in_the_foreground() -> None:
    closed = Terminal()
    closed.close()

    assert in_foreground(closed) is False


class SettingsError(Exception):
    """An error with a name that means wrong usage."""


class BadSettingError(SettingsError):
    """One kind of it."""


def errors() -> Iterator[tuple[BaseException, int, str]]:
    noted = ValueError("It is wrong.")
    noted.add_note("In line 3.")
    yield ValueError("It is wrong."), EXIT_FAILED, "It is wrong."
    yield noted, EXIT_FAILED, "It is wrong. In line 3."
    yield ValueError("wrong."), EXIT_FAILED, "ValueError: wrong.. --debug shows the traceback."
    yield ValueError("it is wrong"), EXIT_FAILED, "ValueError: it is wrong. --debug shows the traceback."
    yield ValueError(), EXIT_FAILED, "ValueError. --debug shows the traceback."
    yield BadSettingError("Is it set?"), EXIT_USAGE, "Is it set?"
    yield FileNotFoundError(2, "No such file", "a.txt"), EXIT_FAILED, "a.txt: No such file."
    yield OSError(5, "Input/output error"), EXIT_FAILED, "Input/output error."
    yield OSError("It is away."), EXIT_FAILED, "It is away."
    yield ExceptionGroup("all", [BadSettingError("It is bad.")]), EXIT_USAGE, "It is bad."
    more = ExceptionGroup("all", [ValueError("It is bad."), ValueError("2"), BadSettingError("3")])
    yield more, EXIT_FAILED, "It is bad. (and 2 more; --debug shows all errors)"


@pytest.mark.parametrize(("error", "code", "sentence"), list(errors()))
def test_an_error_becomes_a_sentence_and_an_exit_code(error: BaseException, code: int, sentence: str) -> None:
    assert (code, sentence) == (exit_code_of(error), sentence_of(error))


def test_the_help_lists_the_exit_codes_in_a_column() -> None:
    lines = epilog().splitlines()

    assert (["\b", "Exit codes:", "    0  success"], "  130  interrupted") == (lines[:3], lines[-1])


@pytest.mark.parametrize(("numbers", "bars"), [((), ""), ((0, 0), "▁▁"), ((0, 7, 14), "▁▅█"), ((3,), "█")])
def test_a_sparkline_has_a_bar_for_each_number(numbers: tuple[float, ...], bars: str) -> None:
    assert bars == sparkline(numbers)
