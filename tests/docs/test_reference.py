"""The reference: every public name is on a page, has a docstring, and is used by an example that runs."""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from mqflow.app.config.settings import ListenerSettings, QueueManagerSettings, Settings
from tests.docs.commands_page import page as commands_page
from tests.docs.pages import DOCS, blocks

PAGES = sorted((DOCS / "reference").glob("*.md"))
PLUGINS = sorted((DOCS.parent / "plugins").glob("*/mqflow_*"))
PUBLIC = ("mqflow", "mqflow.journal", "mqflow.otel")
"""The packages whose names are all public."""
ELSEWHERE = {"mqflow.Depends"}
"""Names that other projects document."""
MADE_BY_USERS = (
    "mqflow.app.application.App",
    "mqflow.app.handlers.middleware.Incoming",
    "mqflow.app.router.Router",
    "mqflow.otel.OpenTelemetry",
    "mqflow.policy.poison.outcomes.Retry",
)
"""Classes with an `__init__` that users call. A record needs no entry here: its fields are its constructor."""


def entries(page: Path) -> list[str]:
    """Return the names behind the `:::` of a page."""
    return re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)


ENTRIES = sorted({entry for page in PAGES for entry in entries(page)})


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
        for name in thing.__all__:
            yield from shown(f"{entry}.{name}", getattr(thing, name))
    elif inspect.isclass(thing):
        for name, member in vars(thing).items():
            if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                yield f"{entry}.{name}", member


def is_described(name: str, thing: Any) -> bool:
    """Return whether the object has a docstring; the docstring of a constant is the text below its assignment."""
    if (
        inspect.ismodule(thing)
        or inspect.isclass(thing)
        or inspect.isroutine(inspect.unwrap(thing))
        or isinstance(thing, property)
    ):
        return bool((thing.__doc__ or "").strip())
    module, _, constant = name.rpartition(".")
    body = ast.parse(inspect.getsource(import_module(module))).body
    described = [ast.unparse(node) for node, below in pairwise(body) if isinstance(getattr(below, "value", None), ast.Constant)]
    return any(re.match(rf"{constant}(: \S+)? = ", assignment) for assignment in described)


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_name_in_the_reference_exists_and_has_a_docstring(entry: str) -> None:
    silent = [name for name, thing in shown(entry, found(entry)) if not is_described(name, thing)]

    assert [] == silent


def the_same(name: str) -> tuple[str, int]:
    """Return what two imports of one object have in common, also if they take it from different modules."""
    return name.rpartition(".")[2], id(found(name))


@cache
def in_the_reference() -> frozenset[tuple[str, int]]:
    """Return every name that a page shows, without the methods of classes."""
    modules = {entry: found(entry) for entry in ENTRIES}
    names = [
        [f"{entry}.{name}" for name in thing.__all__] if inspect.ismodule(thing) else [entry]
        for entry, thing in modules.items()
    ]
    return frozenset(the_same(name) for each in names for name in each)


@pytest.mark.parametrize("package", PUBLIC)
def test_a_public_name_is_in_the_reference(package: str) -> None:
    assert [] == unknown({f"{package}.{name}" for name in found(package).__all__})


@pytest.mark.parametrize("entry", MADE_BY_USERS)
def test_a_class_that_users_make_shows_its_constructor(entry: str) -> None:
    shows = re.escape(entry) + r"\n    options:\n      merge_init_into_class: true$"

    assert any(re.search(f"^::: {shows}", page.read_text(), re.MULTILINE) for page in PAGES)


def used(program: str) -> set[str]:
    """Return the names that a program imports from `mqflow`, and uses after that; of an imported module, the used members."""
    tree = ast.parse(program)
    taken = {
        name.asname or name.name: f"{node.module}.{name.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "mqflow"
        for name in node.names
    }
    names = {taken[node.id] for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in taken}
    modules = {name for name in names if inspect.ismodule(found(name))}
    members = {
        f"{taken[node.value.id]}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and taken.get(node.value.id) in modules
    }
    return names - modules | members


def python_of(page: str) -> str:
    return "\n".join(block.text for block in blocks(page) if block.language == "python")


def test_each_name_of_the_reference_has_an_example_there() -> None:
    """`test_the_python_of_a_page_runs` runs the examples."""
    examples = {the_same(name) for page in PAGES for name in used(python_of(f"reference/{page.name}"))}

    missing = (in_the_reference() | set(map(the_same, ELSEWHERE))) - examples
    assert [] == sorted(name for name, _ in missing)


def unknown(names: set[str]) -> list[str]:
    """Return the names that no page of the reference shows."""
    return sorted(name for name in names - ELSEWHERE if the_same(name) not in in_the_reference())


@pytest.mark.parametrize("page", [page.relative_to(DOCS).as_posix() for page in sorted(DOCS.rglob("*.md"))])
def test_a_page_takes_only_names_of_the_reference(page: str) -> None:
    assert [] == unknown(used(python_of(page)))


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_a_plugin_of_the_repository_takes_only_names_of_the_reference(plugin: Path) -> None:
    assert [] == unknown({name for file in plugin.rglob("*.py") for name in used(file.read_text())})


def test_the_page_of_commands_has_the_help_of_each_command() -> None:
    current = (DOCS / "reference/commands.md").read_text()

    assert commands_page() == current, "Make it again: python -m tests.docs.commands_page > docs/reference/commands.md"


def test_the_page_of_the_configuration_has_each_key() -> None:
    keys = set(re.findall(r"`([\w.]+)`", (DOCS / "configuration.md").read_text()))

    records: dict[str, type[Struct]] = {
        "": Settings,
        "listeners.NAME.": ListenerSettings,
        "queue_managers.NAME.": QueueManagerSettings,
    }
    known = {f"{above}{key}" for above, record in records.items() for key in keys_of(record)}
    assert {"password", "sources", "warnings"} == {key for key in known - keys if not key.startswith("queue_managers.")}


def keys_of(record: type[Struct]) -> Iterator[str]:
    """Yield the keys of a record of settings; those of the records in it follow a dot."""
    for each in msgspec.structs.fields(record):
        if isinstance(each.type, type) and issubclass(each.type, Struct):
            yield from (f"{each.name}.{key}" for key in keys_of(each.type))
        elif each.name not in {"listeners", "queue_managers"}:
            yield each.name


def test_a_page_has_each_name_of_telemetry() -> None:
    pages = "".join((DOCS / name).read_text() for name in ("observability.md", "reconnection.md"))
    names = set(names_of_telemetry())

    assert len(names) > 40
    assert {"mqflow.otel"} == {name for name in names if not any(f"`{form}`" in pages for form in forms(name))}  # the logger


def names_of_telemetry() -> Iterator[str]:
    """Yield the texts of `mqflow.otel` that are names of spans, metrics and attributes."""
    for file in (DOCS.parent / "mqflow" / "otel").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Constant(value=str(text)) if re.fullmatch(r"(mqflow|messaging)(\.[a-z_]+)+", text):
                    yield text


def forms(name: str) -> Iterator[str]:
    """Yield a name as a page can write it: after `mqflow.backout.count`, the name `.threshold` is enough."""
    parts = name.split(".")
    yield name
    yield from ("." + ".".join(parts[at:]) for at in range(1, len(parts)))
