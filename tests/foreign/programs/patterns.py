"""IBM's patterns for developers, in Python: put and get, request and response, publish and subscribe.

They log what goes wrong and end well all the same: so what they log decides.
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
# What each pattern says when it begins to wait.
READY = "Attempting get"
ready = threading.Event()


class Log(logging.Handler):
    """Everything that was logged."""

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
    """The first waits for what the other sends; a publication is lost where nobody has subscribed yet."""
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
