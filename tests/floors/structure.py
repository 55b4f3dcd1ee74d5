"""Reads the structure of mqflow from its imports: folders, floors, the arrows between them. Knows no picture."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from itertools import combinations
from pathlib import Path

import grimp

__all__ = (
    "circle", "classes_by_name", "floors", "folder_limits", "folder_sentences", "forbidden_imports", "imports_between",
    "is_known", "modules_by_name", "repeated", "shortest_arrows",
)  # fmt: skip

PACKAGE = "mqflow"
ROOT = Path(__file__).parents[2]


_LIMIT = re.compile(r"^No module here imports (.+)\.$", re.MULTILINE)


@cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph(PACKAGE, exclude_type_checking_imports=False)


@cache
def _graph_with_libraries() -> grimp.ImportGraph:
    # Without the cache: grimp notes the times of files once for both graphs, so the second graph can have old imports.
    return grimp.build_graph(PACKAGE, include_external_packages=True, exclude_type_checking_imports=False, cache_dir=None)


def circle() -> list[str]:
    """Return the files of one circle of imports, or an empty list. Imports for types count."""
    graph = _graph()
    try:
        TopologicalSorter({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def imports_between(parent: str) -> dict[str, set[str]]:
    """Return, for each child of a package, the other children that it imports. `__main__` is left out."""
    graph = _graph()
    children = {child for child in graph.find_children(parent) if not child.endswith(".__main__")}
    between: dict[str, set[str]] = {child: set() for child in children}
    for child in children:
        for module in {child, *graph.find_descendants(child)}:
            for imported in graph.find_modules_directly_imported_by(module):
                other = _child_of(parent, imported)
                if other in between and other != child:
                    between[child].add(other)
    return between


def floors(between: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the floors from the top down. A child stands on the floor above the highest child that it imports."""
    level: dict[str, int] = {}
    for child in TopologicalSorter(between).static_order():
        level[child] = 1 + max((level[below] for below in between[child]), default=-1)
    found = [sorted(child for child, at in level.items() if at == floor) for floor in range(max(level.values()) + 1)]
    return found[::-1]


def shortest_arrows(between: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Yield the imports that a picture needs: those that no path over another child already shows."""
    below: dict[str, set[str]] = {}
    for child in TopologicalSorter(between).static_order():
        below[child] = set().union(*({other} | below[other] for other in between[child]))
    for child in sorted(between):
        for other in sorted(between[child]):
            if not any(other in below[third] for third in between[child]):
                yield child, other


def folder_sentences() -> Iterator[tuple[str, str]]:
    """Yield each folder with the first paragraph of its docstring: its purpose, and its limits."""
    graph = _graph()
    for module in sorted(graph.modules):
        if module != PACKAGE and graph.find_children(module):
            paragraph = (import_module(module).__doc__ or "").strip().split("\n\n")[0]
            yield module.replace(".", "/"), " ".join(paragraph.split())


def folder_limits() -> Iterator[tuple[str, list[str]]]:
    """Yield each folder with the packages and libraries that its docstring forbids it to import."""
    for folder, _ in folder_sentences():
        found = _LIMIT.search(import_module(folder.replace("/", ".")).__doc__ or "")
        yield folder, re.findall(r"`([\w.]+)`", found[1]) if found else []


def forbidden_imports(folder: str, limits: list[str]) -> list[str]:
    """Return the imports of the folder's files that its limits forbid. A limit also forbids the modules below it."""
    graph, package = _graph_with_libraries(), folder.replace("/", ".")
    return [
        f"{module} -> {imported}"
        for module in sorted({package, *graph.find_descendants(package)})
        for imported in sorted(graph.find_modules_directly_imported_by(module))
        if any(f"{imported}.".startswith(f"{limit}.") for limit in limits)
    ]


def is_known(name: str) -> bool:
    """Return whether a limit names a module of mqflow, or a library that a module of mqflow imports."""
    return name in _graph_with_libraries().modules


def modules_by_name() -> Mapping[str, list[str]]:
    """Return the modules that are files, by the name of the file. `__main__` is left out."""
    found = defaultdict[str, list[str]](list)
    for module in sorted(_graph().modules):
        if _file_of(module).exists() and not module.endswith(".__main__"):
            found[module.rpartition(".")[2]].append(module)
    return found


def classes_by_name() -> Mapping[str, list[str]]:
    """Return the modules that define a class of each name. A class with an underscore belongs to its file only."""
    found = defaultdict[str, list[str]](list)
    for module in [file for files in modules_by_name().values() for file in files]:
        for node in ast.parse(_file_of(module).read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module)
    return found


def repeated(by_name: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return each name that two files of neighbouring folders have, with these files.

    Folders are neighbours if they have one parent, if one is in the other, or if files of one import files of the other.
    """
    imports = _imports_between_folders()
    found = dict[str, list[str]]()
    for name, modules in by_name.items():
        near = set[str]()
        for one, other in combinations(modules, 2):
            if _are_neighbours(_folder_of(one), _folder_of(other), imports):
                near |= {one, other}
        if near:
            found[name] = sorted(near)
    return found


def _are_neighbours(one: str, other: str, imports: Mapping[str, set[str]]) -> bool:
    parents = _folder_of(one), _folder_of(other)
    return (
        parents[0] == parents[1]
        or one in (other, parents[1])
        or other == parents[0]
        or other in imports[one]
        or one in imports[other]
    )


def _imports_between_folders() -> Mapping[str, set[str]]:
    graph, found = _graph(), defaultdict[str, set[str]](set)
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            found[_own_folder(module)].add(_own_folder(imported))
    return found


def _file_of(module: str) -> Path:
    return ROOT / f"{module.replace('.', '/')}.py"


def _own_folder(module: str) -> str:
    return module if _graph().find_children(module) else _folder_of(module)


def _folder_of(module: str) -> str:
    return module.rpartition(".")[0]


def _child_of(parent: str, module: str) -> str:
    if not module.startswith(f"{parent}."):
        return ""
    return f"{parent}.{module[len(parent) + 1 :].partition('.')[0]}"
