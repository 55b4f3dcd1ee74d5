"""Runs the sample programs of IBM's npm package ibmmq, with its compiled code as it comes, on a served queue manager.

No file of the package is kept here: npm installs it into `.cache/foreign`. The programs load mqflow's client library for
programs in any language. The outcome of a sample is its output: most samples end with 0 after a failed call too.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.foreign.serving import MissingError, ran, served

__all__ = ("samples",)

VERSION: Final = "2.1.9"
# The arguments of each run in order, and the words that its output has if its calls succeeded.
# MQCB and MQCTL are in amqsbra.js, amqsgeta.js and amqsgetac.js. The sample amqsjwt.js is left out: it needs a token server.
_RUNS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("amqsconn.js QM1", ("MQCONN to QM1 successful", "MQDISC successful")),
    ("amqsinq.js QM1", ('qmgrName = "QM1"',)),
    ("amqsput.js DEV.QUEUE.1 QM1", ("MQPUT successful",)),
    ("amqsget.js DEV.QUEUE.1 QM1", ("<Hello from Node at", "no more messages")),
    ("amqsput.js DEV.QUEUE.1 QM1", ("MQPUT successful",)),
    ("amqsbra.js DEV.QUEUE.1 QM1", ("<Hello from Node at", "No more messages available.", "Exiting ...")),
    ("amqsgeta.js DEV.QUEUE.1 QM1", ("<Hello from Node at", "No more messages available.", "Exiting ...")),
    ("amqsput.js DEV.QUEUE.1 QM1", ("MQPUT successful",)),
    ("amqsgetac.js DEV.QUEUE.1 QM1", ("<Hello from Node at", "Commit OK", "No more messages available.", "Exiting ...")),
    ("amqsputp.js DEV.QUEUE.1 QM1", ("MQPUT successful",)),
    ("amqsprop.js DEV.QUEUE.1 QM1", ("MQPUT successful",)),
    ("amqsdlh.js DEV.QUEUE.1 QM1", ("MQPUT successful",)),
    ("amqspub.js dev/JSTopic QM1", ("MQRC_NO_SUBS_MATCHED [2550]", "MQDISC successful")),
    ("amqssub.js dev/JSTopic QM1", ("MQSUB to topic dev/JSTopic successful", "no more messages", "MQDISC successful")),
    ("amqsconntls.js QM1", ("MQCONN to QM1 successful", "MQDISC successful")),
    ("amqsset.js DEV.QUEUE.2 QM1", ("MQSET of queue successful",)),
)


def samples(cache: Path, queues: Path) -> Iterator[tuple[str, str]]:
    """Yield each sample and why it failed; an empty text for a sample that succeeded. Raises `MissingError`."""
    folder = _installed(cache)
    with served(cache, queues) as (_, settings):
        for arguments, expected in _RUNS:
            name = arguments.partition(" ")[0]
            code, said = ran(["node", *arguments.split()], folder, settings)
            yield name, "" if code is not None and all(words in said for words in expected) else said.strip()


def _installed(cache: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise MissingError("It needs Node.js 20 or later, with npm: install nodejs and npm, and try again.")
    folder = cache / f"npm-ibmmq-{VERSION}"
    package = folder / "node_modules" / "ibmmq"
    if not package.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        # Without the scripts of the package, which download IBM's client.
        command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", f"ibmmq@{VERSION}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MissingError(f"npm could not install ibmmq {VERSION}: {done.stderr.strip()[-300:]}")
    # A sample finds its package from any folder beside node_modules.
    shutil.copytree(package / "samples", folder / "samples", dirs_exist_ok=True)
    return folder / "samples"
