"""The man pages of all commands, made from their help. `python -m mqflow.cli.text.man_pages FOLDER` writes them."""

import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click

__all__ = ("man_page", "man_pages")


def man_pages(group: click.Group, name: str = "mqflow", parent: click.Context | None = None) -> Iterator[tuple[str, str]]:
    """Yield the name (`mqflow-qmgr-start.1`) and the text of each page: for the group and for all commands in it."""
    context = _context(group, name, parent)
    yield f"{name.replace(' ', '-')}.1", man_page(group, name, parent)
    for below in group.list_commands(context):
        command = group.get_command(context, below)
        if isinstance(command, click.Group):
            yield from man_pages(command, f"{name} {below}", context)
        elif command is not None:
            yield f"{name.replace(' ', '-')}-{below}.1", man_page(command, f"{name} {below}", context)


def man_page(command: click.Command, name: str, parent: click.Context | None = None) -> str:
    """Return the page of a command in roff, with the macros of man(7): name, synopsis, description, options, commands."""
    context = _context(command, name, parent)
    title = name.replace(" ", "-")
    summary = " ".join(command.get_short_help_str(limit=200).split())
    lines = [f".TH {title.upper()} 1", ".SH NAME", f"{_text(title)} \\- {_text(summary)}"]
    lines += [".SH SYNOPSIS", f".B {_text(context.command_path)}"]
    lines.append(_text(" ".join(command.collect_usage_pieces(context))))
    lines.append(".SH DESCRIPTION")
    for paragraph in cleandoc(command.help or "").split("\n\n"):
        kept = paragraph.startswith("\b")  # with this mark, click does not wrap the lines
        text = paragraph.replace("\b", "").strip("\n")
        lines += [".PP", *([".nf", _lines(text), ".fi"] if kept else [_text(" ".join(text.split()))])]
    options = [record for each in command.get_params(context) if (record := each.get_help_record(context)) and record[1]]
    if options:
        lines.append(".SH OPTIONS")
        lines += [part for option, text in options for part in (".TP", f".B {_text(option)}", _text(" ".join(text.split())))]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            short = "" if found is None else " ".join(found.get_short_help_str(limit=200).split())
            lines += [".TP", f".B {_text(below)}", _text(short)]
    if command.epilog:
        lines += [".SH EXIT STATUS", ".nf", _lines(cleandoc(command.epilog.replace("\b", ""))), ".fi"]
    return "\n".join(lines) + "\n"


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    """Return the context that a real run has: with the help option of the outermost group, and the arguments of all groups."""
    return click.Context(command, parent, name.rsplit(maxsplit=1)[-1] if parent else name, **command.context_settings)


def _lines(text: str) -> str:
    return "\n".join(map(_text, text.split("\n")))


def _text(text: str) -> str:
    """Return the text for roff. Backslashes and hyphens are escaped, and no line begins with a control character."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _write(folder: Path) -> None:
    from mqflow.cli.main import main  # noqa: PLC0415 - only the program needs it

    folder.mkdir(parents=True, exist_ok=True)
    for file, text in man_pages(main):
        (folder / file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
