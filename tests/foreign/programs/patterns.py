"""IBM's patterns for developers, in Python: put and get, request and response, publish and subscribe.

They log errors and still exit with 0, so their log decides.
"""

import logging
import os
import runpy
import sys
import threading
from pathlib import Path

FOLDER = Path(".cache/foreign/mq-dev-patterns/Python").resolve()
sys.path.insert(0, str(FOLDER))
os.environ["JSON_CONFIG"] = str(FOLDER.parent / "env.json")
# The log line of each pattern when it begins to wait.
READY = "Attempting get"
ready = threading.Event()


class Log(logging.Handler):
    """Keeps all log records."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append((record.levelno, f"{record.name}: {record.getMessage()}"))
        if READY in record.getMessage():
            ready.set()


def run(name: str) -> None:
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")


def together(waiting: str, other: str) -> None:
    """Run two programs: the first waits for the messages of the second; a publication before the subscribe is lost."""
    ready.clear()
    thread = threading.Thread(target=run, args=(waiting,))
    thread.start()
    assert ready.wait(20), log.said
    run(other)
    thread.join()


log = Log()
logging.basicConfig(level=logging.INFO, handlers=[log])
run("basicput")
run("basicget")
together("basicrequest", "basicresponse")
together("basicsubscribe", "basicpublish")
wrong = [text for level, text in log.said if level >= logging.ERROR]
assert not wrong, wrong
said = "\n".join(text for _, text in log.said)
for sentence in ("Have message from input queue", "Have message from reply queue", "Have publication on topic"):
    assert sentence in said, sentence
