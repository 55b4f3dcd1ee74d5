"""The man pages: one for each command, made from its help, with every option and no text that roff reads as a command."""

import click

from mqflow.cli.main import main
from mqflow.cli.text.man_pages import man_page, man_pages

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
