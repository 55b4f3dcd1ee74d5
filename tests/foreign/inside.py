"""Runs a test suite of another project, or an example, in this process: `python -m tests.foreign.inside suite FOLDER REPORT`.

This queue manager has the objects of IBM's container for developers. They are QM1, the users `admin` and `app` with a check
of their password, the channels, the queues. The suites and examples run unmodified.
"""

import os
import runpy
import sys
from pathlib import Path

import pytest

from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import PutOption
from mqflow.standin import install

__all__ = ("example", "suite")

QUEUES = Path(__file__).with_name("programs") / "queues.mqsc"
USERS = QUEUES.with_name("users.mqsc")
GROUPS = {"admin": frozenset({"mqm"})}
PASSWORDS = {"admin": "passw0rd", "app": "passw0rd"}
_GETTING = ("get_message", "get_wait_single", "get_wait_truncated", "reply_to_queues")
_SETTINGS = {
    "NAME": "QM1", "HOST": "localhost", "PORT": "1414", "CHANNEL": "DEV.ADMIN.SVRCONN", "USER": "admin",
    "PASSWORD": PASSWORDS["admin"], "APP_CHANNEL": "DEV.APP.SVRCONN", "APP_USER": "app", "APP_PASSWORD": PASSWORDS["app"],
    "CONN_AUTH_USE_PW": "REQUIRED", "CONNAUTH_USE_PW": "REQUIRED",
}  # fmt: skip


def suite(folder: str, report: str) -> int:
    """Run a suite; return the exit code of pytest."""
    os.environ.update(
        {f"{prefix}_{name}": said for prefix in ("PYMQI_TEST_QM", "PY_IBMMQ_TEST_QM") for name, said in _SETTINGS.items()}
    )
    install(_queue_manager("QM1", QUEUES, USERS), users=PASSWORDS)
    sys.path.insert(0, folder)
    os.chdir(folder)
    options = ["-q", "-p", "no:cacheprovider", "--timeout=60", "-c", os.devnull, "--rootdir=.", f"--junit-xml={report}"]
    return int(pytest.main([*options, "."]))


def example(file: str) -> int:
    """Run an example, on the queue manager that it names, with a message on the queues that it may get from."""
    name = "QM01" if "QM01" in Path(file).read_text(encoding="utf-8") else "QM1"
    queue_manager = _queue_manager(name, QUEUES)
    install(queue_manager)
    if Path(file).name.startswith(_GETTING):
        connection = queue_manager.connect(application_name="example")
        for queue in ("DEV.QUEUE.1", "TEST.1"):
            request = MessageDescriptor(format="MQSTR", ccsid=1208, reply_to_queue="DEV.QUEUE.3")
            connection.put1(queue, request, b"a message", PutOption.NO_SYNCPOINT)
    os.chdir(Path(file).parent)
    sys.argv = [file]
    runpy.run_path(file, run_name="__main__")
    return 0


def _queue_manager(name: str, *scripts: Path) -> EmbeddedQueueManager:
    queue_manager = EmbeddedQueueManager(name, groups=lambda user: GROUPS.get(user, frozenset()))
    for script in scripts:
        results = mqsc.run(script.read_text(encoding="utf-8"), queue_manager.administration)
        assert results.exit_code() == 0, [each.text for each in results.responses]
    return queue_manager


if __name__ == "__main__":
    what, *given = sys.argv[1:]
    sys.exit(suite(*given) if what == "suite" else example(*given))
