"""What the source documents say, statement by statement, with the tests that hold each: read from the tables beside this file.

Also writes the page docs/sources.md: `python -m tests.sources.statements > docs/sources.md`. Knows tests by their names only,
and runs none.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

__all__ = ("ORDER", "Section", "Source", "Statement", "page", "read", "tests_in", "what_is_wrong")

ROOT: Final = Path(__file__).parents[2]
ORDER: Final = ("poison-messages", "backout-queues", "reconnection", "delivery-delay", "rules-table")
"""The tables, in the order of the page."""


class Statement(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that a source says is so."""

    #: What it says, in words of our own.
    says: str
    #: `file::test` below tests/, without ".py" and "test_"; behind it, in brackets, words of the row of its table.
    held: tuple[str, ...] = ()
    #: Why it is otherwise here, or is not about anything that is here.
    differs: str = ""


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section of a source, by its heading there."""

    title: str
    statement: tuple[Statement, ...]


class Source(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A document."""

    title: str
    #: Who wrote it.
    by: str
    #: Where the guide says what follows from it: a page of this site.
    guide: str
    section: tuple[Section, ...]

    @property
    def statements(self) -> tuple[Statement, ...]:
        """All of them, in their order."""
        return tuple(statement for section in self.section for statement in section.statement)


class Held(Struct, frozen=True):
    """The name of a test, taken apart."""

    #: From the root of the repository.
    file: str
    test: str
    #: Words that stand in the file; empty where the whole test is meant.
    row: str

    @property
    def sentence(self) -> str:
        """The name of the test as it would be read aloud."""
        return self.test.removeprefix("test_").replace("_", " ")


class Tests(Struct, frozen=True):
    """What there is in a file of tests."""

    functions: frozenset[str]
    texts: tuple[str, ...]


@cache
def read(name: str) -> Source:
    """Return the table of this name."""
    return msgspec.toml.decode((Path(__file__).parent / f"{name}.toml").read_text("utf-8"), type=Source)


def held_by(name: str) -> Held:
    """Return what a name of a test means. Raises `ValueError` where it does not have the form of one."""
    before, _, row = name.partition("[")
    file, colons, test = before.partition("::")
    if not (colons and file and test) or (row and not row.endswith("]")):
        raise ValueError(f"{name!r} is no name of a test: folder/file::test, or folder/file::test[words of a row]")
    folder, _, stem = file.rpartition("/")
    return Held(f"tests/{folder}/test_{stem}.py", f"test_{test}", row.removesuffix("]"))


@cache
def tests_in(file: str) -> Tests:
    """Return the tests of a file and all texts in it, without importing it; nothing where there is no such file."""
    path = ROOT / file
    if not path.is_file():
        return Tests(frozenset(), ())
    tree = ast.parse(path.read_text("utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return Tests(frozenset(name for name in functions if name.startswith("test_")), tuple(texts))


def what_is_wrong(source: Source) -> Iterator[str]:
    """Yield each statement that nothing holds and no reason excuses, and each test that is not there."""
    for statement in source.statements:
        if not statement.says.strip() or not (statement.held or statement.differs.strip()):
            yield f"{statement.says!r} has neither a test nor a reason for the difference"
        for name in statement.held:
            held = held_by(name)
            there = tests_in(held.file)
            if held.test not in there.functions:
                yield f"{name}: there is no {held.test} in {held.file}"
            elif not any(held.row in text for text in there.texts):
                yield f"{name}: no text in {held.file} has the words of this row"


def page() -> str:
    """Return docs/sources.md."""
    sources = [read(name) for name in ORDER]
    return "\n".join([_HEAD, *(_summary(sources)), *(line for source in sources for line in _part(source))]) + "\n"


_HEAD: Final = """\
# What the sources say

mqflow does what five documents say about IBM MQ, and where anything disagrees with them, they win. Here is each thing that they
say is so, in other words and in their order, with the tests that fail where it is not. Where mqflow is deliberately otherwise,
or a statement is about something that is not here (classes of JMS, z/OS, clusters), the page says so and why.

This page is made from tables (`python -m tests.sources.statements`); a test compares them, looks for every test that is named,
and finds any statement that has neither a test nor a reason. The names of tests are their files below `tests/` and what they
claim; in brackets is the row that is meant, where one test holds a whole table.
"""


def _summary(sources: list[Source]) -> Iterator[str]:
    yield "| source | by | statements | held by a test | otherwise, or not here |"
    yield "|---|---|---|---|---|"
    for source in sources:
        every = source.statements
        held, otherwise = sum(bool(each.held) for each in every), sum(bool(each.differs) for each in every)
        anchor = _anchor(source.title)
        yield f"| [{source.title}](#{anchor}) | {source.by} | {len(every)} | {held} | {otherwise} |"
    yield ""
    yield "A statement may be both: held in what a test can show, and otherwise in the rest."


def _part(source: Source) -> Iterator[str]:
    yield ""
    yield f"## {source.title}"
    yield ""
    yield f"{source.by}. What follows from it: [{_title_of(source.guide)}]({source.guide}.md)."
    for section in source.section:
        yield ""
        yield f"### {section.title}"
        yield ""
        yield "| it says | held by |"
        yield "|---|---|"
        for statement in section.statement:
            yield f"| {_cell(statement.says)} | {_cell(_held(statement))} |"


def _title_of(guide: str) -> str:
    with (ROOT / "docs" / f"{guide}.md").open(encoding="utf-8") as lines:
        return next(lines).removeprefix("# ").strip()


def _held(statement: Statement) -> str:
    by = [_named(held_by(name)) for name in statement.held]
    otherwise = [f"**Otherwise:** {statement.differs}"] if statement.held and statement.differs else []
    alone = [f"*{statement.differs}*"] if statement.differs and not statement.held else []
    return "<br>".join([*by, *otherwise, *alone])


def _named(held: Held) -> str:
    file = held.file.removeprefix("tests/").removesuffix(".py")
    row = f" [{held.row}]" if held.row else ""
    return f"`{file}` {held.sentence}{row}"


def _anchor(title: str) -> str:
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -")
    return "-".join(kept.split())


def _cell(text: str) -> str:
    # A bar would end the cell.
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
