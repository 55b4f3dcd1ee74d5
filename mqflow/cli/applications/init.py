"""`mqflow init`: creates an application that runs, with its queues, a test that passes, settings and a Containerfile."""

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
    "pyproject.toml": _PROJECT,
    "Containerfile": _CONTAINERFILE,
    ".gitignore": "data/\n__pycache__/\n*.egg-info/\n",
}


@click.command("init")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def command(folder: Path) -> None:
    """Create a new application in FOLDER. If one of its files exists already, the command creates nothing.

    If mqflow was installed from a folder or a file, FOLDER/wheels gets a wheel of it, for the container and for `pip install`.
    """
    existing = [name for name in _FILES if (folder / name).exists()]
    if existing:
        raise ConfigurationError(f"{folder} has {', '.join(existing)} already; choose another folder. Nothing was changed.")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _FILES.items():
        written = text.replace("{name}", folder.resolve().name) if name == "pyproject.toml" else text
        (folder / name).write_text(written, encoding="utf-8")
    find_links = ""
    mqflow = distribution("mqflow")
    if not is_from_index(mqflow):
        name, content = make_wheel(mqflow)
        (folder / "wheels").mkdir(exist_ok=True)
        (folder / "wheels" / name).write_bytes(content)
        find_links = "--find-links wheels "
    click.echo(f"Created {folder} with {', '.join(_FILES)}. Next:\n")
    for line in (
        f"cd {folder}",
        f"pip install {find_links}-e '.[test]'",
        "pytest",
        "mqflow mqsc queues.mqsc",
        """mqflow put NAMES.IN '{"name": "Ada"}'""",
        "mqflow run app:app",
    ):
        click.echo(f"  {line}")
