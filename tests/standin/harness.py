"""Runs tests in a process of their own, in which ibmmq or pymqi is the real, unmodified package on the stand-in library.

A process has one such library, and a fault of a C extension ends its process. So the tests run in a child, by name, one after
the other. Each test with the parameter `program` gets its `Program` there, once with each package.
"""

import gc
import importlib.util
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mqflow.testing.standin import StandInKit

__all__ = ("ENDED", "ROOT", "Child", "Plant", "Program", "environment", "only_in", "serve")

ROOT = Path(__file__).parents[2]

ENDED = "the process ended with"

Plant = Callable[[pytest.MonkeyPatch], None]


class Program:
    """The steps that a test takes with a package: connect, open, and look at the queue manager from behind."""

    def __init__(self, mq: Any, kit: StandInKit) -> None:
        self.mq = mq
        self.c = mq.CMQC
        self.kit = kit
        kit.define("Q")
        self.manager = self.connect()
        #: A second program, connected on its own.
        self.other = self.connect()

    @property
    def is_pymqi(self) -> bool:
        return bool(self.mq.__name__ == "pymqi")

    def connect(self, options: int | None = None, channel: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """Connect as a client, with handles that by default any thread may use. `channel` has fields of the MQCD."""
        manager = self.mq.QueueManager(None)
        fields = {"ChannelName": b"DEV.APP.SVRCONN", "ConnectionName": b"localhost(1414)", **(channel or {})}
        opts = self.c.MQCNO_HANDLE_SHARE_BLOCK if options is None else options
        manager.connect_with_options(b"QM1", opts=opts, cd=self.mq.CD(**fields), **more)
        return manager

    def connect_alone(self) -> Any:
        """Connect with handles that only this thread may use: pymqi as a client, ibmmq by MQCONN, locally."""
        return self.connect(self.c.MQCNO_HANDLE_SHARE_NONE) if self.is_pymqi else self.mq.QueueManager(b"QM1")

    def open(self, options: int | None = None, name: str = "Q", manager: Any = None) -> Any:
        c = self.c
        everything = c.MQOO_OUTPUT | c.MQOO_INPUT_AS_Q_DEF | c.MQOO_BROWSE | c.MQOO_INQUIRE
        opened = self.mq.Queue(manager or self.manager)
        opened.open(name.encode(), everything if options is None else options)
        return opened

    def gmo(self, options: int = 0, **fields: Any) -> Any:
        """Get message options of the newest version."""
        return self.mq.GMO(Options=options, Version=4, **fields)

    def md(self, **fields: Any) -> Any:
        return self.mq.MD(Version=2, **fields)

    def refused(self, reason: int, call: Callable[[], object]) -> Any:
        """Return the error; fail without an error, or with another one."""
        try:
            returned = call()
        except self.mq.MQMIError as error:
            if error.reason == reason:
                return error
            raise
        raise AssertionError(f"no error, but {returned!r}")

    def depth(self, name: str = "Q") -> int:
        return self.kit.queue_manager.administration.queue_status(name).depth


def only_in(name: str, why: str) -> pytest.MarkDecorator:
    """Mark a test that runs with this package only; `why` says what keeps it from the other."""
    return pytest.mark.only_in(name, why)


def environment(search: list[str]) -> dict[str, str]:
    """Return the environment of a process that imports from these folders first."""
    return os.environ | {"PYTHONPATH": os.pathsep.join((*search, os.environ.get("PYTHONPATH", "")))}


class Child:
    """A process with one of the packages; another one, when a test has ended it."""

    def __init__(self, name: str, search: list[str]) -> None:
        self.name = name
        self._environment = environment(search)
        self._process: subprocess.Popen[str] | None = None

    def run(self, file: Path, name: str) -> None:
        """Run one test there; fail as it failed."""
        if failure := self.failure_of(file, name):
            pytest.fail(failure, pytrace=False)

    def failure_of(self, file: Path, name: str, plant: Plant | None = None) -> str:
        """Run one test there, with a defect planted if there is one; return how it failed, or nothing."""
        process = self._process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        planted = (plant.__module__, plant.__name__) if plant else None
        process.stdin.write(json.dumps([str(file), name, planted]) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            self.close()
            return f"{ENDED} {process.returncode}"
        return str(json.loads(answer))

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate(timeout=120)
            self._process = None

    def _started(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", "tests.standin.harness", self.name],
            env=self._environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip


def serve(package: str) -> None:
    """Run the tests that stdin names, until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a package prints is no answer
    modules: dict[str, ModuleType] = {}
    mq = None
    # ibmmq disconnects a queue manager that is collected. If it makes spans, this takes a lock that a put may hold on the
    # same thread. Now and then it would wait for itself. So it is collected between two tests.
    gc.disable()
    for line in sys.stdin:
        gc.collect()
        file, name, planted = json.loads(line)
        if file not in modules:
            modules[file] = _loaded(file)
        failure = ""
        with pytest.MonkeyPatch.context() as patch:
            if planted:
                getattr(importlib.import_module(planted[0]), planted[1])(patch)
            try:
                with closing(StandInKit()) as kit:
                    mq = mq or importlib.import_module(package)
                    getattr(modules[file], name)(Program(mq, kit))
            except BaseException as error:  # noqa: BLE001 - the parent receives it, and fails
                failure = "".join(traceback.format_exception(error, limit=-4))
        answers.write(json.dumps(failure) + "\n")
        answers.flush()


def _loaded(file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    from tests.standin import harness

    harness.serve(sys.argv[1])
