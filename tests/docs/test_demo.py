"""`make demo` installs only the extra `cli`, so the demo must import nothing else."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

IMPORT = "import sys; sys.modules.update(dict.fromkeys(sys.argv[1:])); import examples.flights.demo"
"""A module that is None in sys.modules cannot be imported, as if its distribution were missing."""


def installed_with(name: str, extras: frozenset[str], seen: set[str]) -> set[str]:
    """Return the distributions that `pip install name[extras]` installs, as their metadata here name them."""
    if name in seen:
        return seen
    seen.add(name)
    try:
        wanted = requires(name) or []
    except PackageNotFoundError:  # a requirement of another platform
        return seen
    for requirement in map(Requirement, wanted):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            installed_with(canonicalize_name(requirement.name), frozenset(requirement.extras), seen)
    return seen


def importing_the_demo_without(modules: set[str]) -> int:
    return subprocess.run([sys.executable, "-c", IMPORT, *sorted(modules)], stderr=subprocess.DEVNULL, check=False).returncode


def test_the_demo_imports_nothing_that_make_demo_does_not_install() -> None:
    installed = installed_with("mqflow", frozenset({"cli"}), set())
    owners = {module: set(map(canonicalize_name, names)) for module, names in packages_distributions().items()}
    missing = {module for module, names in owners.items() if not names & installed} - {"examples", "tests"}

    assert {"pytest", "pyspark"} <= missing
    assert 0 == importing_the_demo_without(missing)
    assert 0 != importing_the_demo_without({"rich", "msgspec"})
