"""IBM's patterns for developers, in Python: put and get, request and response, publish and subscribe.

Each runs in a process of its own, because a process sets TLS up once. They log errors and exit with 0, so their logs decide.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER = Path(".cache/foreign/mq-dev-patterns/Python").resolve()
SETTINGS = os.environ | {"JSON_CONFIG": str(FOLDER.parent / "env.json")}
# The log line of each pattern when it begins to wait.
READY = "Attempting get"
said: list[str] = []


@contextmanager
def started(name: str) -> Iterator[Iterator[str]]:
    """Start a pattern. Yield the lines of its log; at the end of the block, read the rest and wait for the process."""
    command = [sys.executable, f"{name}.py"]
    with subprocess.Popen(command, cwd=FOLDER, env=SETTINGS, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        yield process.stderr
        said.extend(process.stderr)
    assert process.returncode == 0, said


def run(name: str) -> None:
    with started(name):
        pass


def together(waiting: str, other: str) -> None:
    """Run two programs: the first waits for the messages of the second; a publication before the subscribe is lost."""
    with started(waiting) as log:
        for line in log:
            said.append(line)
            if READY in line:
                break
        run(other)


run("basicput")
run("basicget")
together("basicrequest", "basicresponse")
together("basicsubscribe", "basicpublish")
wrong = [line for line in said if line.startswith(("ERROR:", "CRITICAL:"))]
assert not wrong, wrong
for sentence in ("Have message from input queue", "Have message from reply queue", "Have publication on topic"):
    assert any(sentence in line for line in said), sentence
