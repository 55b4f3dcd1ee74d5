"""The reference: every public name is on a page, every entry exists, and everything shown has a docstring."""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import mqflow
from tests.docs.commands_page import page as commands_page
from tests.docs.pages import DOCS, blocks

PAGES = sorted((DOCS / "reference").glob("*.md"))
ENTRIES = sorted({entry for page in PAGES for entry in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)})
ELSEWHERE = {"Depends"}
"""Names that other projects document."""
MADE_BY_USERS = (
    "mqflow.app.application.App",
    "mqflow.app.router.Router",
    "mqflow.otel.OpenTelemetry",
    "mqflow.policy.poison.outcomes",
)
"""Classes with an `__init__` that users call, or their module. A record needs no entry here: its fields are its constructor."""


def found(entry: str) -> Any:
    """Return the module, or the member of a module, that the entry names."""
    try:
        return import_module(entry)
    except ModuleNotFoundError as error:
        module, _, name = entry.rpartition(".")
        if not module or error.name is None or not entry.startswith(error.name):
            pytest.skip(f"{error.name} is not installed")
        return getattr(found(module), name)


def shown(entry: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects that the page shows for an entry: itself, the members of a module, the methods of a class."""
    yield entry, thing
    if inspect.ismodule(thing):
        for name in getattr(thing, "__all__", ()):
            member = getattr(thing, name)
            if inspect.isclass(member) or inspect.isfunction(member):
                yield from shown(f"{entry}.{name}", member)
    elif inspect.isclass(thing):
        for name, member in vars(thing).items():
            if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                yield f"{entry}.{name}", member


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_name_in_the_reference_exists_and_has_a_docstring(entry: str) -> None:
    silent = [name for name, thing in shown(entry, found(entry)) if not (thing.__doc__ or "").strip()]

    assert [] == silent


@pytest.mark.parametrize("name", sorted(set(mqflow.__all__) - ELSEWHERE))
def test_a_public_name_is_in_the_reference(name: str) -> None:
    home = mqflow._HOMES[name]

    assert {home, f"{home}.{name}"} & set(ENTRIES), f"no page has ::: {home}.{name}"


@pytest.mark.parametrize("entry", MADE_BY_USERS)
def test_a_class_that_users_make_shows_its_constructor(entry: str) -> None:
    shows = re.escape(entry) + r"\n    options:\n      merge_init_into_class: true$"

    assert any(re.search(f"^::: {shows}", page.read_text(), re.MULTILINE) for page in PAGES)


def used(program: str) -> set[str]:
    """Return the names that a program takes from `mqflow`, and uses after that."""
    tree = ast.parse(program)
    taken = {
        name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "mqflow"
        for name in node.names
    }
    return taken & {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_each_public_name_has_an_example_in_the_reference() -> None:
    """`test_the_python_of_a_page_runs` runs the examples."""
    page = "\n".join(block.text for block in blocks("reference/application.md") if block.language == "python")

    assert set(mqflow.__all__) == used(page)


def test_the_page_of_commands_has_the_help_of_each_command() -> None:
    current = (DOCS / "reference/commands.md").read_text()

    assert commands_page() == current, "Make it again: python -m tests.docs.commands_page > docs/reference/commands.md"
