"""A DLQ handler as an application declares it: a rules table, Python functions beside it, and whether the table may change.

Reads the table when it is declared, so that one with errors never runs. Handles nothing itself.
"""

import logging
from collections.abc import Callable
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Final

from mqflow.app.errors import ConfigurationError
from mqflow.policy.dead_letters.actions import DeadLetter, Matcher, matcher, matchers
from mqflow.policy.dead_letters.rules import Action, PutAuthority, Rule, RulesError, RulesTable, parse
from mqflow.policy.dead_letters.rules.records import Control
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.dead_letters.handler import Rules
from mqflow.runtime.dead_letters.service import DeadLetterService
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.hooks import Broadcast
from mqflow.world import Clock

__all__ = ("DeadLetterRules", "Predicate")

Predicate = Callable[[DeadLetter], bool]

_logger: Final = logging.getLogger("mqflow")


class DeadLetterRules:
    """What a DLQ handler goes by: Python rules in the order of their declaration, then the rules of the table."""

    def __init__(self, table: str | Path | None, queue: str, *, reload: bool) -> None:
        self._path = None if table is None else Path(table)
        self._queue = queue
        self._reload = reload
        self._functions: list[Matcher] = []
        self._stamp = (0, 0)
        self._table = self._read() if self._path else RulesTable(())

    @property
    def queue(self) -> str:
        """The queue that is handled: as declared, INPUTQ of the table, or empty for that of the queue manager."""
        return self._queue or self._table.control.input_queue

    @property
    def control(self) -> Control:
        """The control data of the table."""
        return self._table.control

    def rule(
        self,
        action: Action,
        *,
        forward_queue: str = "",
        forward_queue_manager: str = "",
        keep_header: bool = True,
        attempts: int = 1,
        put_authority: PutAuthority = PutAuthority.DEF,
    ) -> Callable[[Predicate], Predicate]:
        """Declare the function below as the pattern of a rule: it is given the `DeadLetter` and says whether the rule matches.

        The action is carried out as the table's would be. A message that the function raises for stays, and that is told once.
        Raises `ValueError` for FWD without a queue.
        """
        if (action is Action.FWD) != bool(forward_queue):
            raise ValueError("Action.FWD needs forward_queue, and no other action takes one.")
        rule = Rule(
            action=action,
            forward_queue=forward_queue,
            forward_queue_manager=forward_queue_manager,
            keep_header=keep_header,
            attempts_max=attempts,
            put_authority=put_authority,
        )

        def declare(function: Predicate) -> Predicate:
            if iscoroutinefunction(function):
                said = f"{function.__name__} is async, and asked as a plain function: it would match every dead letter."
                raise ConfigurationError(said)
            self._functions.append(matcher(rule, function, function.__name__))
            return function

        return declare

    def rules(self) -> Rules:
        """Return all rules, in the order in which they are asked."""
        # A function may look at the body; the table looks at descriptor and MQDLH only.
        every = (*self._functions, *matchers(self._table.rules))
        return Rules(self._table.control, every, whole=bool(self._functions))

    def service(
        self, supervisor: Supervisor, *, broadcast: Broadcast, clock: Clock, records: ConnectionRecorder | None = None
    ) -> DeadLetterService:
        """Return what runs them, and puts a record of each action where it is given what puts one."""
        changed = self._changed if self._reload and self._path else None
        return DeadLetterService(
            self.rules(), self.queue, supervisor, broadcast=broadcast, clock=clock, changed=changed, records=records
        )

    def _read(self) -> RulesTable:
        """Return the table in the file. Raises `RulesError` with everything that is wrong with it."""
        assert self._path is not None  # noqa: S101 - only who has a file reads it
        self._stamp = _stamp(self._path)
        table = parse(self._path.read_text("utf-8"))
        if not isinstance(table, RulesTable):
            raise RulesError(table)
        return table

    def _changed(self) -> Rules | None:
        """Return the rules where the file is another one now; one with errors, or none, leaves those of before."""
        assert self._path is not None  # noqa: S101 - as above
        if _stamp(self._path) in {self._stamp, (0, 0)}:
            return None
        try:
            self._table = self._read()
        except (RulesError, OSError, UnicodeDecodeError) as error:
            _logger.error("%s has changed, and the rules of before go on: %s", self._path, error)  # noqa: TRY400 - no traceback helps
            return None
        _logger.info("%s has changed, and the new rules apply", self._path)
        return self.rules()


def _stamp(path: Path) -> tuple[int, int]:
    """Return what changes when the file does; zeros where there is none."""
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)
