"""punch-q, a tool of security testers: its questions to a queue manager, and its work with messages.

Not its `ping`, which asks for the queue manager with a parameter that is the number of a command (3015 here).
"""

import tempfile
from pathlib import Path

from click.testing import CliRunner
from libpunchq.cli import cli

TO = "--host localhost --port 1414 --qm_name QM1 --channel DEV.ADMIN.SVRCONN --username admin --password passw0rd"


def punch(*words: str) -> str:
    done = CliRunner().invoke(cli, [*TO.split(), *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


saved = Path(tempfile.mkdtemp())
said = punch("discover", "name")
assert "QM1" in said, said
punch("messages", "push", "--queue", "DEV.QUEUE.1", "--source-string", "pushed")
said = punch("show", "queues", "--prefix", "DEV.*")
assert "DEV.QUEUE.1" in said, said
said = punch("messages", "dump", "--queue", "DEV.QUEUE.1")
assert "pushed" in said, said
punch("messages", "save", "--queue", "DEV.QUEUE.1", "--directory", str(saved))
assert any(b"pushed" in file.read_bytes() for file in saved.rglob("*") if file.is_file())
punch("messages", "pop", "--queue", "DEV.QUEUE.1", "--skip-confirmation")
said = punch("messages", "dump", "--queue", "DEV.QUEUE.1")
assert "pushed" not in said, said
said = punch("show", "channels", "--prefix", "*")
assert "SVRCONN" in said, said
