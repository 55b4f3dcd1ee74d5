"""Collects the state of an application's worker processes in their parent, and passes orders on to them.

Each worker has a control socket in a folder of the parent. If a worker has ended, the status does not show it; if a worker does
not answer, the status names it. This file starts no process.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from mqflow.cli.watching.control import Order, OrderError, PartlyDoneError
from mqflow.cli.watching.sockets import Answer, Request, ask
from mqflow.policy.health.records import ApplicationStatus, ProcessStatus, SilentProcess
from mqflow.world import SYSTEM_WORLD, World

__all__ = ("WorkersSource", "first_orders", "worker_number", "worker_socket")

_WORKER_S: Final = 2.0
_ORDERS: Final = "orders.json"


def worker_socket(folder: Path, number: int) -> Path:
    """Return the path of the control socket of this worker process."""
    return folder / f"worker-{number}.sock"


def worker_number(path: Path) -> int:
    """Return the number of the worker process with this control socket."""
    return int(path.stem.rpartition("-")[2])


def first_orders(path: Path) -> tuple[Order, ...]:
    """Return the orders that are in force, for a worker process that starts with this control socket."""
    try:
        return msgspec.json.decode((path.parent / _ORDERS).read_bytes(), type=tuple[Order, ...])
    except FileNotFoundError:
        return ()


class WorkersSource:
    """The source of an application with several worker processes."""

    def __init__(
        self,
        application: str,
        process: int,
        url: str,
        folder: Path,
        expected: int,
        running: Callable[[], Mapping[int, int]],
        is_stopping: Callable[[], bool] = lambda: False,
        wait_s: float = _WORKER_S,
        world: World = SYSTEM_WORLD,
    ) -> None:
        """Take the folder of the sockets, and a function that returns the processes that run, by number of the worker."""
        self._empty: Final = ApplicationStatus(application=application, process=process, url=url, expected=expected)
        self._folder: Final = folder
        self._running: Final = running
        self._is_stopping: Final = is_stopping
        self._wait_s: Final = wait_s
        self._world: Final = world
        #: By process: the time of its last answer, or the time when it was first seen.
        self._answered: dict[int, float] = {}
        #: The orders in force, for worker processes that start later. The key is the listener, and whether the order pauses or
        #: resumes it. The last order comes last, because two names can mean one listener.
        self._orders: dict[tuple[str, bool], Order] = {}

    def status(self) -> ApplicationStatus:
        """Return the state of all worker processes that answer. A process that does not answer is in `silent`."""
        running = dict(self._running())
        processes: list[ProcessStatus] = []
        silent: list[SilentProcess] = []
        application = self._empty.application
        answers = self._ask_all(running, Request())
        for number, process in sorted(running.items()):
            answer = answers[number]
            if self._running().get(number) != process:  # the process has ended meanwhile
                continue
            now = self._world.clock.monotonic()
            if answer is not None and answer.status is not None:
                self._answered[process] = now
                application = answer.status.application
                processes += answer.status.processes
            else:
                since = self._answered.setdefault(process, now)
                silent.append(SilentProcess(process=process, number=number, for_s=now - since))
        self._answered = {process: at for process, at in self._answered.items() if process in running.values()}
        return replace(
            self._empty,
            application=application,
            processes=tuple(processes),
            silent=tuple(silent),
            is_stopping=self._is_stopping(),
        )

    def order(self, order: Order) -> None:
        """Carry out the order in every worker process, and in those that start later.

        Raises `OrderError` if every process refuses the order. Raises `PartlyDoneError` if some processes refuse it, or do not
        answer. A process that does not answer gets the order at its next start, unless another process refused the order.
        """
        asked = dict(self._running())
        answers = self._ask_all(asked, Request(order))
        refused, done = _refused(answers), _done(answers)
        if refused and not done:
            raise OrderError(next(iter(refused.values())))
        if not refused:
            self._remember(order)
            # A process that has started meanwhile may have read the orders in force before that.
            started = [number for number, process in self._running().items() if asked.get(number) != process]
            answers |= self._ask_all(started, Request(order))
            refused, done = _refused(answers), _done(answers)
        if refused:
            raise PartlyDoneError(
                f"Worker {_listed(refused)} refused the order: {next(iter(refused.values()))} "
                f"Only worker {_listed(done)} carried it out. Give the order again."
            )
        without_answer = [number for number, answer in answers.items() if answer is None]
        if without_answer:
            others = "The others have" if done else "No other has"
            raise PartlyDoneError(
                f"Worker {_listed(without_answer)} does not answer, and gets the order at its next start. "
                f"{others} carried it out."
            )

    def _remember(self, order: Order) -> None:
        parts = ((replace(order, concurrency=None), order.held), (replace(order, held=None), order.concurrency))
        for part, value in parts:
            if value is not None:
                key = part.listener, part.held is not None
                self._orders.pop(key, None)
                self._orders[key] = part
        written = self._folder / f"{_ORDERS}.new"
        written.write_bytes(msgspec.json.encode(tuple(self._orders.values())))
        written.replace(self._folder / _ORDERS)  # a worker process that starts now reads the old orders or the new ones

    def _ask_all(self, numbers: Iterable[int], request: Request) -> dict[int, Answer | None]:
        """Ask these worker processes at the same time, so that several slow processes take no longer than one."""
        answers: dict[int, Answer | None] = dict.fromkeys(sorted(numbers))

        def ask_one(number: int) -> None:
            answers[number] = self._ask(number, request)

        for thread in [self._world.runner.start(partial(ask_one, number), "mqflow worker status") for number in answers]:
            thread.join()
        return answers

    def _ask(self, number: int, request: Request) -> Answer | None:
        """Return the answer of the worker process; None if it does not answer in time, or does not listen yet."""
        try:
            return ask(worker_socket(self._folder, number), request, wait_s=self._wait_s)
        except (OSError, msgspec.MsgspecError):
            return None


def _refused(answers: Mapping[int, Answer | None]) -> dict[int, str]:
    return {number: answer.refused for number, answer in answers.items() if answer is not None and answer.refused}


def _done(answers: Mapping[int, Answer | None]) -> list[int]:
    return [number for number, answer in answers.items() if answer is not None and not answer.refused]


def _listed(numbers: Iterable[int]) -> str:
    return " and ".join(map(str, numbers))
