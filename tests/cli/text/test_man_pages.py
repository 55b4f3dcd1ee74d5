"""The man pages: one for each command, made from its help, with every option and no text that roff reads as a command."""

from pathlib import Path

import click
import pytest

from mqflow.cli.main import main
from mqflow.cli.text.man_pages import _write, man_page, man_pages

MACROS = (".TH", ".SH", ".PP", ".TP", ".B", ".nf", ".fi")


@click.command("sail", short_help="Sail.", epilog=".5 is a half\n")
@click.option("--to-port", help="C:\\ports")
def sail(to_port: str) -> None:
    """Sail a boat.

    .hidden files stay.

    \b
    a   table
      - stays
    """


def test_a_page_has_the_help_and_roff_reads_no_text_as_a_command() -> None:
    lines = man_page(sail, "boat sail").splitlines()

    assert [".TH BOAT-SAIL 1", ".SH NAME", "boat\\-sail \\- Sail.", ".SH SYNOPSIS", ".B boat sail", "[OPTIONS]"] == lines[:6]
    assert "\\&.hidden files stay." in lines
    assert "\\&.5 is a half" in lines
    at = lines.index(".nf")
    assert [".nf", "a   table", "  \\- stays", ".fi"] == lines[at : at + 4]
    assert [".B \\-\\-to\\-port TEXT", "C:\\eports"] == lines[lines.index(".SH OPTIONS") + 2 :][:2]


GROUP_PAGE = r"""
.TH PORT-BOAT 1
.SH NAME
port\-boat \- Move boats.
.SH SYNOPSIS
.B port boat
[OPTIONS] COMMAND [ARGS]...
.SH DESCRIPTION
.PP
Move boats.
.SH OPTIONS
.TP
.B \-\-help
Show this message and exit.
.SH COMMANDS
.TP
.B sail
Sail.
.SH EXIT STATUS
.nf
Codes:
  1  sunk
.fi
"""


def test_a_page_of_a_group_has_its_commands_and_its_exit_codes() -> None:
    group = click.Group("boat", {"sail": sail}, help="Move boats.", epilog="\b\nCodes:\n  1  sunk")

    assert GROUP_PAGE.lstrip() == man_page(group, "port boat")
    assert ["port-boat.1", "port-boat-sail.1"] == [name for name, _ in man_pages(group, "port boat")]


def test_each_command_has_a_page_with_its_options() -> None:
    pages = dict(man_pages(main))

    assert {"mqflow.1", "mqflow-poison.1", "mqflow-qmgr.1", "mqflow-qmgr-start.1"} <= pages.keys()
    assert "\\-\\-log\\-format" in pages["mqflow-run.1"]
    assert [] == [file for file, text in pages.items() if ".B \\-h, \\-\\-help\n" not in text]
    for file, text in pages.items():
        commands = [line for line in text.splitlines() if line.startswith((".", "'"))]
        assert [] == [line for line in commands if line.split()[0] not in MACROS], file


def test_the_synopsis_has_the_argument_that_comes_before_the_command() -> None:
    pages = dict(man_pages(main))

    assert "\n.B mqflow ctl APP drain\n[OPTIONS] LISTENER\n" in pages["mqflow-ctl-drain.1"]
    assert "\n.B mqflow qmgr start\n" in pages["mqflow-qmgr-start.1"]


@pytest.mark.parametrize(("length", "is_whole"), [(199, True), (200, True), (201, False)])
def test_a_summary_of_more_than_two_hundred_characters_is_cut(length: int, *, is_whole: bool) -> None:
    summary = "a " * (length // 2) + "b" * (length % 2) if length % 2 else "a " * (length // 2 - 1) + "bb"
    boat = click.Command("boat", help=summary)

    for page, at in ((man_page(boat, "boat"), 2), (man_page(click.Group("port", {"boat": boat}), "port"), -1)):
        line = page.splitlines()[at].removeprefix("boat \\- ")
        assert (summary == line) is is_whole, line


def test_each_page_is_a_file(tmp_path: Path) -> None:
    for _ in range(2):
        _write(tmp_path / "man" / "man1")

    assert dict(man_pages(main)) == {file.name: file.read_text("utf-8") for file in (tmp_path / "man" / "man1").iterdir()}
