"""The seams to the world: the modules that an import loads, and the files that use a clock, random numbers or threads.

A simulation needs few and known seams. import-linter checks which floor imports which.
"""

import ast
import fnmatch
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "mqflow"

#: The files that may use each name. A module covers everything in it; files are relative to the package.
SEAMS = {
    "time": ("world.py",),
    "random": ("world.py", "testing/journals.py", "testing/virtual_clock.py"),
    "secrets": ("cli/console/access.py", "cli/console/views.py", "cli/queue_managers/qmgr.py"),
    "uuid": (),
    "os.urandom": (),
    "datetime.datetime.now": (),
    "datetime.datetime.utcnow": (),
    "datetime.datetime.today": (),
    "datetime.date.today": (),
    "threading.Thread": ("world.py",),
    "threading.Timer": (),
    "queue.SimpleQueue": ("world.py", "app/run/decision_ledger.py"),
    "select": ("embedded/wire/protocol/wakeup.py", "embedded/wire/server/idle_poller.py"),
    "concurrent": ("pipeline/sources/journal_frame.py",),  # Spark itself runs on threads: no simulation runs it
    "multiprocessing": (),
    "anyio.to_thread": ("app/handlers/handler.py",),
    "asyncio": ("runtime/cancellation.py", "testing/virtual_time.py"),
    # A task without a task group; anyio has no such task, and its task groups belong to one task.
    "trio": ("runtime/connection/loop_call.py", "testing/virtual_trio.py"),
    "socket": ("embedded/wire/*.py", "embedded/channel/peer.py", "cli/watching/*.py"),
    "sqlite3": ("embedded/storage/sqlite/*.py", "app/run/decision_ledger.py", "app/run/shared_notes.py"),
    "pickle": (),
    "marshal": (),
    "xml": (),
}

HEAVY = (
    "anyio._backends._asyncio",
    "click",
    "ibmmq",
    "mqflow.embedded.queue_manager",
    "mqflow.embedded.storage.sqlite_store",
    "opentelemetry",
    "pandas",
    "pyarrow",
    "pymqi",
    "pyspark",
    "rich",
    "socket",
    "sqlite3",
    "starlette",
    "trio",
)

#: Modules that an ordinary consumer never uses: an import of one takes 1 to 10 ms of every start.
UNUSED = (
    "difflib",
    "importlib.metadata",
    "jinja2",
    "mqflow.app.handlers.consumer",
    "mqflow.cli.console",
    "mqflow.embedded.mqsc",
    "mqflow.embedded.pcf.commands",
    "mqflow.mqi.pcf",
    "mqflow.policy.channels.sources",
    "mqflow.policy.dead_letters.rules",
    "mqflow.runtime.dead_letters",
)
FIRST_MESSAGE = """
import anyio
import mqflow

async def main() -> None:
    app = mqflow.App("embedded::memory:?qmgr=QM1")
    over = anyio.Event()

    @app.listener("SYSTEM.DEFAULT.LOCAL.QUEUE", backout=mqflow.Backout(threshold=3, queue="SYSTEM.DEAD.LETTER.QUEUE"))
    async def handle(order: dict[str, int]) -> None:
        over.set()

    async with app.running():
        await app.put("SYSTEM.DEFAULT.LOCAL.QUEUE", {"id": 1})
        await over.wait()

anyio.run(main)
"""


def names_in(source: str) -> set[str]:
    """Return the dotted names that a module imports, and the names that it reaches through its imports."""
    tree = ast.parse(source)
    known: dict[str, str] = {}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                known[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else alias.name.split(".")[0]
                found.add(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                found |= {node.module, f"{node.module}.{alias.name}"}
    for node in ast.walk(tree):
        dotted = dotted_name(node)
        if dotted:
            first, _, rest = dotted.partition(".")
            if first in known:
                found.add(f"{known[first]}.{rest}")
    return found


def dotted_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        before = node.value.id if isinstance(node.value, ast.Name) else dotted_name(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


@cache
def named_by_file() -> dict[str, set[str]]:
    return {path.relative_to(PACKAGE).as_posix(): names_in(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def uses(seam: str) -> list[str]:
    """Return the files that use the seam, or a member of it."""
    return [
        file for file, names in named_by_file().items() if any(name == seam or name.startswith(f"{seam}.") for name in names)
    ]


@pytest.mark.parametrize("seam", SEAMS)
def test_only_a_seam_reaches_the_world(seam: str) -> None:
    strangers = [file for file in uses(seam) if not any(fnmatch.fnmatch(file, allowed) for allowed in SEAMS[seam])]

    assert strangers == [], f"{seam} is reached past its seam; take a Clock, a Random or a Runner (mqflow.world) instead"


@pytest.mark.parametrize(("seam", "allowed"), [(seam, allowed) for seam, files in SEAMS.items() for allowed in files])
def test_no_permission_is_left_over(seam: str, allowed: str) -> None:
    assert fnmatch.filter(uses(seam), allowed), f"{allowed} no longer needs {seam}"


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("import time\ntime.sleep(1)", "time.sleep"),
        ("import time as t\nt.monotonic()", "time.monotonic"),
        ("from time import sleep", "time.sleep"),
        ("from datetime import datetime\nx = datetime.now()", "datetime.datetime.now"),
        ("import datetime\nx = datetime.datetime.now()", "datetime.datetime.now"),
        ("import threading\nthreading.Thread(target=print)", "threading.Thread"),
        ("import anyio.to_thread", "anyio.to_thread"),
        ("import anyio\nanyio.to_thread.run_sync(print)", "anyio.to_thread.run_sync"),
        ("def f():\n    from random import random", "random.random"),
    ],
)
def test_the_search_sees_every_way_to_name_a_thing(source: str, named: str) -> None:
    assert named in names_in(source)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("import mqflow", []),
        ("from mqflow import App, Backout, Context, Message, Reject, Retry", ["sqlite3"]),  # for the decision ledger
    ],
)
def test_an_import_loads_nothing_heavy(statement: str, expected: list[str]) -> None:
    assert set(expected) == set(among(HEAVY, statement))


@pytest.mark.parametrize("program", ["from mqflow import App", FIRST_MESSAGE], ids=["the import", "the first message"])
def test_a_consumer_loads_no_module_that_it_never_uses(program: str) -> None:
    assert [] == among(UNUSED, program)


def among(names: Sequence[str], program: str) -> list[str]:
    """Return those of the modules that a new interpreter has loaded after it ran the program."""
    script = f"import sys\n{program}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=250)
    loaded = done.stdout.split()
    return [name for name in names if any(module == name or module.startswith(f"{name}.") for module in loaded)]
