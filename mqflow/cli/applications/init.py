"""`mqflow init`: creates an application that runs, with its queues, a test that passes, settings and a Containerfile.

`mqflow init --plugin` creates a distribution with a plugin and its test instead.
"""

from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import click

from mqflow.app.errors import ConfigurationError
from mqflow.cli.applications.wheel import is_from_index, make_wheel

__all__ = ("command",)

_APP: Final = '''"""Greets each person that a message on NAMES.IN names."""

import msgspec

from mqflow import App, Context

app = App("embedded:./data?qmgr=QM1")


class Person(msgspec.Struct):
    name: str


@app.listener("NAMES.IN", concurrency=2)
async def greet(person: Person, ctx: Context) -> None:
    await ctx.put("GREETINGS.OUT", f"Hello, {person.name}!")  # in the same unit of work as the get
'''

_TEST: Final = '''"""Tests the application on a queue manager in memory, in virtual time: without patches, without sleeps."""

from pathlib import Path

from app import app
from mqflow.testing.kit import QueueManagerKit

QUEUES = (Path(__file__).parent / "queues.mqsc").read_text()


async def test_a_person_in_a_message_gets_a_greeting(mq: QueueManagerKit) -> None:
    mq.mqsc(QUEUES)
    async with mq.run(app):
        await mq.put("NAMES.IN", {"name": "Ada"})
        [greeting] = await mq.drain("GREETINGS.OUT")
    assert greeting.text() == "Hello, Ada!"


async def test_a_message_without_a_name_goes_to_the_backout_queue(mq: QueueManagerKit) -> None:
    mq.mqsc(QUEUES)
    async with mq.run(app):
        await mq.put("NAMES.IN", {"nome": "Ada"})
        [dead] = await mq.drain("NAMES.BOQ")
    assert dead.why.outcome == "undecodable"
'''

_QUEUES: Final = """* The queues of the application. IBM MQ accepts this file too (runmqsc).
DEFINE QLOCAL('NAMES.IN') DEFPSIST(YES) BOTHRESH(3) BOQNAME('NAMES.BOQ') REPLACE
DEFINE QLOCAL('NAMES.BOQ') DEFPSIST(YES) REPLACE
DEFINE QLOCAL('GREETINGS.OUT') DEFPSIST(YES) REPLACE
"""

_SETTINGS: Final = """# An MQFLOW_* variable overrides the key of the same name.
# `mqflow explain app:app --config` shows the effective settings.
drain_s = 25        # after SIGTERM; keep it below the grace period of the container

[listeners."NAMES.IN"]
concurrency = 2
"""

_PROJECT: Final = """[build-system]
requires = ["setuptools>=64"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["mqflow[cli]"]

[project.optional-dependencies]
test = ["pytest"]

[tool.setuptools]
py-modules = ["app"]

[tool.pytest.ini_options]
pythonpath = ["."]
"""

_CONTAINERFILE: Final = """FROM python:3.12-slim
WORKDIR /app
# The folder wheels is there if mqflow came from no package index: it has the mqflow that made this application.
COPY pyproject.toml wheel[s] ./
# Install the dependencies of pyproject.toml, not the project: its files are copied below.
RUN python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\\n')" \\
    > requirements.txt && pip install --no-cache-dir --find-links . -r requirements.txt
COPY app.py queues.mqsc mqflow.toml ./
RUN useradd --create-home mqflow && mkdir data && chown mqflow data
USER mqflow
VOLUME /app/data
# exec: the application itself receives SIGTERM, and drains
CMD ["sh", "-c", "mqflow mqsc queues.mqsc && exec mqflow run app:app"]
"""

_FILES: Final = {
    "app.py": _APP,
    "test_app.py": _TEST,
    "queues.mqsc": _QUEUES,
    "mqflow.toml": _SETTINGS,
    "pyproject.toml": "",
    "Containerfile": _CONTAINERFILE,
    ".gitignore": "data/\n__pycache__/\n*.egg-info/\n",
}


_TRIED: Final = ("mqflow mqsc queues.mqsc", """mqflow put NAMES.IN '{"name": "Ada"}'""", "mqflow run app:app")
"""The commands that try the application."""

_PLUGIN: Final = '''"""Middleware for mqflow that counts the outcomes of each queue. `App(middleware=["{name}"])` names it."""

from collections import Counter
from collections.abc import Awaitable, Callable

from mqflow import Incoming, Outcome

__all__ = ("Plugin",)


class Plugin:
    """Counts outcomes. The application makes it without arguments."""

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()

    async def consume(self, delivery: Incoming, call_next: Callable[[Incoming], Awaitable[Outcome]]) -> Outcome:
        """Handle a message, and return its outcome unchanged: only the outcome `Completed` commits."""
        outcome = await call_next(delivery)
        self.outcomes[delivery.queue, type(outcome).__name__] += 1
        return outcome
'''

_PLUGIN_TEST: Final = '''"""Tests the plugin in an application on a queue manager in memory, in virtual time."""

import anyio
from {module} import Plugin

from mqflow import App
from mqflow.testing.kit import QueueManagerKit


async def test_the_plugin_counts_the_outcomes_of_a_queue(mq: QueueManagerKit) -> None:
    plugin = Plugin()
    app = App(middleware=[plugin])
    mq.mqsc("DEFINE QLOCAL('NAMES.IN') BOTHRESH(1) BOQNAME('NAMES.BOQ')", "DEFINE QLOCAL('NAMES.BOQ')")

    @app.listener("NAMES.IN")
    async def greet(name: str) -> None:
        if not name:
            raise ValueError("a name is empty")

    async with mq.run(app):
        await mq.put("NAMES.IN", "Ada")
        await mq.put("NAMES.IN", "")
        await mq.drain("NAMES.BOQ")
        await anyio.sleep(1)

    assert {("NAMES.IN", "Completed"): 1, ("NAMES.IN", "Failed"): 1} == plugin.outcomes
'''

_PLUGIN_PROJECT: Final = """[build-system]
requires = ["setuptools>=64"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "0.1.0"
description = "A plugin for mqflow."
requires-python = ">=3.11"
dependencies = ["mqflow"]

[project.optional-dependencies]
test = ["pytest"]

# The other groups are mqflow.hooks, mqflow.codecs and mqflow.commands.
[project.entry-points."mqflow.middleware"]
{name} = "{module}:Plugin"

[tool.setuptools]
py-modules = ["{module}"]

[tool.pytest.ini_options]
pythonpath = ["."]
"""


def _application(folder: str) -> dict[str, str]:
    """Return the files of an application, with their texts."""
    return _FILES | {"pyproject.toml": _PROJECT.replace("{name}", folder)}


def _plugin(folder: str) -> dict[str, str]:
    """Return the files of a plugin, with their texts. Raises `ConfigurationError` if no module can have the name."""
    module = folder.replace("-", "_")
    if not module.isidentifier():
        raise ConfigurationError(
            f"{folder} cannot be the name of a plugin: it needs letters, digits and hyphens, as acme-audit."
        )
    files = {f"{module}.py": _PLUGIN, f"test_{module}.py": _PLUGIN_TEST, "pyproject.toml": _PLUGIN_PROJECT}
    return {name: text.replace("{name}", folder).replace("{module}", module) for name, text in files.items()}


@click.command("init")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--plugin", "is_plugin", is_flag=True, help="Create a plugin instead, with its entry point and its test.")
def command(folder: Path, is_plugin: bool) -> None:  # noqa: FBT001 - click passes options by name
    """Create a new application in FOLDER. If one of its files exists already, the command creates nothing.

    If mqflow was installed from a folder or a file, FOLDER/wheels gets a wheel of it, for the container and for `pip install`.
    """
    files = (_plugin if is_plugin else _application)(folder.resolve().name)
    existing = [name for name in files if (folder / name).exists()]
    if existing:
        raise ConfigurationError(f"{folder} has {', '.join(existing)} already; choose another folder. Nothing was changed.")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    find_links = ""
    mqflow = distribution("mqflow")
    if not is_from_index(mqflow):
        name, content = make_wheel(mqflow)
        (folder / "wheels").mkdir(exist_ok=True)
        (folder / "wheels" / name).write_bytes(content)
        find_links = "--find-links wheels "
    click.echo(f"Created {folder} with {', '.join(files)}. Next:\n")
    tried = ("mqflow plugins",) if is_plugin else _TRIED
    for line in (f"cd {folder}", f"pip install {find_links}-e '.[test]'", "pytest", *tried):
        click.echo(f"  {line}")
