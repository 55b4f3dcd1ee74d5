"""No two files, and no two classes, of neighbouring folders have one name, except for the names in `repeated_names.toml`."""

from collections.abc import Mapping

from tests.floors.repeated_names import Repetition, listed
from tests.floors.structure import classes_by_name, modules_by_name, repeated

#: The lengths of the lists. They only become smaller.
MODULES_MAX = 25
CLASSES_MAX = 8


def differences(kept: Mapping[str, Repetition], found: Mapping[str, list[str]]) -> dict[str, set[str]]:
    """Return the files, by name, that are only in the list or only among the repetitions."""
    files = {name: {f"{module.replace('.', '/')}.py" for module in modules} for name, modules in found.items()}
    listed_files = {name: set(repetition.files) for name, repetition in kept.items()}
    return {
        name: differing
        for name in sorted(files.keys() | listed_files.keys())
        if (differing := files.get(name, set()) ^ listed_files.get(name, set()))
    }


def test_no_new_module_has_the_name_of_a_module_in_a_neighbouring_folder() -> None:
    assert {} == differences(listed().modules, repeated(modules_by_name())), "rename a file, or remove an old entry"


def test_no_new_class_has_the_name_of_a_class_in_a_neighbouring_folder() -> None:
    assert {} == differences(listed().classes, repeated(classes_by_name())), "rename a class, or remove an old entry"


def test_the_lists_of_repeated_names_only_become_shorter() -> None:
    assert len(listed().modules) <= MODULES_MAX
    assert len(listed().classes) <= CLASSES_MAX


def test_folders_with_one_parent_and_folders_that_import_each_other_are_neighbours() -> None:
    siblings = ["mqflow.embedded.mqsc.x", "mqflow.embedded.pcf.x"]
    parent_and_child = ["mqflow.mqi.selectors.x", "mqflow.mqi.x"]
    importing = ["mqflow.cli.messages.x", "mqflow.mqi.headers.x"]

    assert {"x": siblings} == repeated({"x": siblings})
    assert {"x": parent_and_child} == repeated({"x": parent_and_child})
    assert {"x": importing} == repeated({"x": importing})


def test_a_name_in_two_folders_that_are_far_apart_is_not_repeated() -> None:
    assert {} == repeated({"x": ["mqflow.cli.messages.x", "mqflow.pipeline.delta.x"]})


def test_a_new_file_with_a_listed_name_is_a_difference_and_so_is_an_entry_that_is_gone() -> None:
    kept = {"x": Repetition("why", ["a/x.py", "b/x.py"]), "y": Repetition("why", ["a/y.py", "b/y.py"])}

    assert {"x": {"c/x.py"}, "y": {"a/y.py", "b/y.py"}} == differences(kept, {"x": ["a.x", "b.x", "c.x"]})
