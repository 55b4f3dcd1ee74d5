"""`mqflow copybook`: shows the layout of a copybook, and writes its types as Python."""

from collections.abc import Iterator
from pathlib import Path

import click

from mqflow_copybook.copybook import python_type, record_of, type_name
from mqflow_copybook.items import Item
from mqflow_copybook.source import CopybookError

__all__ = ("command",)


@click.command("copybook", context_settings={"help_option_names": ["-h", "--help"]})  # also without mqflow around it
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--record", default="", help="The record, if the copybook has several items of level 01.")
@click.option("--types", is_flag=True, help="Write the types as Python, for a type checker.")
def command(file: Path, record: str, types: bool) -> None:  # noqa: FBT001 - click passes options by name
    """Show the layout of a COBOL copybook: offset, bytes, level, name, picture and the type in Python.

    An offset with + grows with a table before it (DEPENDING ON).
    """
    try:
        item = record_of(file.read_text("utf-8-sig"), name=file.stem, record=record)
    except CopybookError as error:
        raise click.ClickException(f"{file}: {error}") from None
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise click.ClickException(f"{file} is not UTF-8 (byte 0x{byte:02x} at {error.start}). Save it as UTF-8.") from None
    heading = "offset  bytes"
    click.echo("\n".join(_source(item) if types else (heading, *_layout(item, 0, moves=False))))


def _layout(item: Item, offset: int, *, moves: bool) -> Iterator[str]:
    kind = (python_type(item.format).__name__ if item.format else type_name(item)) if item.key else ""
    least, most = item.occurs or (0, 0)
    times = f"{least} to {most} times" if item.depending else f"{most} times" if most else ""
    yield " ".join(
        filter(None, (f"{offset}{'+' * moves}".rjust(6), f"{item.size:>6} ", f"{item.level:02}", str(item), times, kind))
    )
    for region in item.regions:
        for child in region:
            yield from _layout(child, offset, moves=moves)
        offset += region[0].size * (region[0].occurs[0] if region[0].occurs else 1)
        moves = moves or region[0].is_variable


def _source(record: Item) -> Iterator[str]:
    yield from ("from decimal import Decimal", "", "from msgspec import Struct", "", "")
    yield from _class(record, "")


def _class(item: Item, indent: str) -> Iterator[str]:
    """Yield the lines of the class of a group; the classes of inner groups are inside it, so equal names do not collide."""
    yield f"{indent}class {type_name(item)}(Struct, kw_only=True):"
    indent += "    "
    for region in item.regions:
        for child in filter(lambda each: each.key, region):
            if not child.format:
                yield from _class(child, indent)
                yield ""
            kind = python_type(child.format).__name__ if child.format else type_name(child)
            kind = f"list[{kind}]" if child.occurs else kind
            yield f"{indent}{child.key}: {f'{kind} | None = None' if len(region) > 1 else kind}"
