"""Every statement of the source documents has an existing test, or a reason; docs/sources.md is made from the tables."""

import re
from pathlib import Path

import pytest

from tests.sources import statements
from tests.sources.statements import ORDER, ROOT, Section, Source, Statement, page, read, what_is_wrong


@pytest.mark.parametrize("name", ORDER)
def test_every_statement_has_a_test_that_is_there_or_a_reason(name: str) -> None:
    assert [] == list(what_is_wrong(read(name)))


def test_every_table_is_on_the_page() -> None:
    assert sorted(ORDER) == sorted(table.stem for table in Path(__file__).parent.glob("*.toml"))


def test_the_page_is_made_from_the_tables() -> None:
    current = (ROOT / "docs" / "sources.md").read_text("utf-8")

    assert page() == current, "Make it again: python -m tests.sources.statements > docs/sources.md"


@pytest.mark.parametrize("name", ORDER)
def test_no_statement_occurs_twice(name: str) -> None:
    said = [statement.says for statement in read(name).statements]

    assert len(said) == len(set(said))


@pytest.mark.parametrize(
    ("statement", "found"),
    [(Statement(says="so it is", decides="A person."), "has neither a test nor a reason"),
     (Statement(says="so it is", differs=" ", decides="A person."), "has neither a test nor a reason"),
     (Statement(says=" ", differs="why", decides="A person."), "has neither a test nor a reason"),
     (Statement(says="so it is", differs="why"), "needs a test with IBM's client, or a reason"),
     (Statement(says="so it is", differs="why", client=("sources/sources::no_statement_occurs_twice",), decides="I."),
      "needs a test with IBM's client, or a reason"),
     (Statement(says="so it is", held=("sources/sources::nothing",), decides="A person."),
      "there is no test_nothing in tests/sources/test_sources.py"),
     (Statement(says="so it is", held=("sources/nowhere::x",), decides="A person."),
      "there is no test_x in tests/sources/test_nowhere.py"),
     (Statement(says="so it is", held=("sources/sources::no_statement_occurs_twice[" + "a row that is " + "not there]",),
                decides="I."), "no text in tests/sources/test_sources.py has the words of this row")],
    ids=["nothing", "a blank reason", "says nothing", "no client", "a client and a reason", "no such test", "no such file",
         "no such row"],
)  # fmt: skip
def test_a_statement_without_a_test_is_found(statement: Statement, found: str) -> None:
    source = Source(title="A", by="B", guide="c", section=(Section(title="D", statement=(statement,)),))

    [wrong] = what_is_wrong(source)

    assert found in wrong


@pytest.mark.parametrize("name", ["sources/sources", "::x", "a/b::x[row", "a/b::"])
def test_another_form_than_the_name_of_a_test_is_refused(name: str) -> None:
    source = Source(
        title="A", by="B", guide="c", section=(Section(title="D", statement=(Statement(says="so", held=(name,)),)),)
    )

    with pytest.raises(ValueError, match="is not the name of a test"):
        list(what_is_wrong(source))


def test_each_test_that_the_page_about_ibms_client_names_exists() -> None:
    page = (ROOT / "docs" / "ibms-client.md").read_text("utf-8")
    named = re.findall(r"\| `((?:[a-z]+/)*)(test_[a-z_]+)` ?([a-z0-9 ]*)(?= \|)", page)

    assert 40 < sum(bool(sentence.strip()) for _, _, sentence in named)
    for folder, file, sentence in named:
        there = statements.tests_in(f"tests/{folder or 'foreign/jms/'}{file}.py")
        words = f"test_{sentence.strip().replace(' ', '_')}"
        assert words in there.functions if sentence.strip() else there.functions, (file, sentence)
