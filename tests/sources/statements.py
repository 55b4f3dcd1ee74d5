"""The statements of the source documents, each with the tests that hold it, from the tables beside this file.

Also writes the page docs/sources.md: `python -m tests.sources.statements > docs/sources.md`. Knows tests by their names only,
and runs none.
"""

import ast
import sys
from collections import Counter
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
VERDICTS: Final = ("agreed", "mended", "documented", "not compared")


class Statement(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One statement of a source."""

    #: The statement, in words of our own.
    says: str
    #: `file::test` below tests/, without ".py" and "test_"; behind it, in brackets, words of the row in its table.
    held: tuple[str, ...] = ()
    #: The reason why mqflow differs, or why the statement does not apply to mqflow.
    differs: str = ""
    #: Tests in which IBM's own client does what the statement says; named as in `held`.
    client: tuple[str, ...] = ()
    #: What IBM's own client does instead.
    client_differs: str = ""
    #: What mqflow changed after IBM's own client had shown something else.
    mended: str = ""
    #: The reason why no test with IBM's own client is about the statement: another program decides, or a person.
    decides: str = ""

    @property
    def verdict(self) -> str:
        """How the statement fared with IBM's own client."""
        if self.decides:
            return "not compared"
        return "mended" if self.mended else "documented" if self.client_differs else "agreed"


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section of a source, by its heading there."""

    title: str
    statement: tuple[Statement, ...]


class Source(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A document."""

    title: str
    #: The author.
    by: str
    #: The page of the guide with the consequences.
    guide: str
    section: tuple[Section, ...]

    @property
    def statements(self) -> tuple[Statement, ...]:
        """All statements, in order."""
        return tuple(statement for section in self.section for statement in section.statement)


class Held(Struct, frozen=True):
    """The name of a test, in parts."""

    #: The path from the root of the repository.
    file: str
    test: str
    #: Words in the file; empty if the whole test holds the statement.
    row: str

    @property
    def sentence(self) -> str:
        """The name of the test as a sentence."""
        return self.test.removeprefix("test_").replace("_", " ")


class Tests(Struct, frozen=True):
    """The tests and texts in a file."""

    functions: frozenset[str]
    texts: tuple[str, ...]


@cache
def read(name: str) -> Source:
    """Return the table of this name."""
    return msgspec.toml.decode((Path(__file__).parent / f"{name}.toml").read_text("utf-8"), type=Source)


def held_by(name: str) -> Held:
    """Return the parts of the name of a test. Raises `ValueError` for another form."""
    before, _, row = name.partition("[")
    file, colons, test = before.partition("::")
    if not (colons and file and test) or (row and not row.endswith("]")):
        raise ValueError(f"{name!r} is not the name of a test: folder/file::test, or folder/file::test[words of a row]")
    folder, _, stem = file.rpartition("/")
    return Held(f"tests/{folder}/test_{stem}.py", f"test_{test}", row.removesuffix("]"))


@cache
def tests_in(file: str) -> Tests:
    """Return the tests of a file and all texts in it, without an import; nothing if there is no such file."""
    path = ROOT / file
    if not path.is_file():
        return Tests(frozenset(), ())
    tree = ast.parse(path.read_text("utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return Tests(frozenset(name for name in functions if name.startswith("test_")), tuple(texts))


def what_is_wrong(source: Source) -> Iterator[str]:
    """Yield each statement without a test and without a reason, and each test that does not exist."""
    for statement in source.statements:
        if not statement.says.strip() or not (statement.held or statement.differs.strip()):
            yield f"{statement.says!r} has neither a test nor a reason for the difference"
        if bool(statement.client) == bool(statement.decides.strip()):
            yield f"{statement.says!r} needs a test with IBM's client, or a reason for none, and not both"
        for name in (*statement.held, *statement.client):
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

mqflow follows five documents about IBM MQ; if anything disagrees with them, the documents win. This page has each statement of
these documents, in other words but in the order of the documents. Each statement has the tests that fail if mqflow breaks it.
If mqflow deliberately differs, or a statement does not apply to mqflow (classes of JMS, z/OS, clusters), the page gives the
reason.

This page is made from tables (`python -m tests.sources.statements`). A test compares page and tables, checks that every named
test exists, and finds statements without a test or a reason. A test is named by its file below `tests/`, and by its function
name as words. If a test runs through a table, words of the table's row follow in brackets.

The last column names tests in which [IBM's own client](ibms-client.md) does what the statement says, or gives the reason why
there is no such test. **Agreed**: the client does it too. **Mended**: mqflow did something else, and does it now.
**Documented**: the client does something else, and the cell says what. **Not compared**: another program decides, or a person.
"""


def _summary(sources: list[Source]) -> Iterator[str]:
    yield f"| source | by | statements | held by a test | different, or does not apply | {' | '.join(VERDICTS)} |"
    yield f"|---|---|---|---|---|{'---|' * len(VERDICTS)}"
    for source in sources:
        every = source.statements
        held, otherwise = sum(bool(each.held) for each in every), sum(bool(each.differs) for each in every)
        anchor = _anchor(source.title)
        counted = Counter(each.verdict for each in every)
        verdicts = " | ".join(str(counted[verdict]) for verdict in VERDICTS)
        yield f"| [{source.title}](#{anchor}) | {source.by} | {len(every)} | {held} | {otherwise} | {verdicts} |"
    yield ""
    yield 'A statement can count as "held by a test" and as "different": a test holds one part, and mqflow differs in another.'


def _part(source: Source) -> Iterator[str]:
    yield ""
    yield f"## {source.title}"
    yield ""
    yield f"{source.by}. The guide: [{_title_of(source.guide)}]({source.guide}.md)."
    for section in source.section:
        yield ""
        yield f"### {section.title}"
        yield ""
        yield "| the document says | tests with mqflow | tests with IBM's client |"
        yield "|---|---|---|"
        for statement in section.statement:
            yield f"| {_cell(statement.says)} | {_cell(_held(statement))} | {_cell(_client(statement))} |"


def _title_of(guide: str) -> str:
    with (ROOT / "docs" / f"{guide}.md").open(encoding="utf-8") as lines:
        return next(lines).removeprefix("# ").strip()


def _held(statement: Statement) -> str:
    by = [_named(held_by(name)) for name in statement.held]
    otherwise = [f"**Different:** {statement.differs}"] if statement.held and statement.differs else []
    alone = [f"*{statement.differs}*"] if statement.differs and not statement.held else []
    return "<br>".join([*by, *otherwise, *alone])


def _client(statement: Statement) -> str:
    if statement.decides:
        return f"*{statement.decides}*"
    by = [_named(held_by(name)) for name in statement.client]
    changes = {"Different": statement.client_differs, "Mended": statement.mended}
    return "<br>".join([*by, *(f"**{word}:** {said}" for word, said in changes.items() if said)])


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
