"""The declaration of a DLQ handler: a rules table, further rules in Python, and whether to reload a changed table.

The table is read when it is declared, so an application with a faulty table does not start.
"""

import logging
from collections.abc import Callable
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Final

from mqflow.app.errors import ConfigurationError
from mqflow.app.handlers.mistakes import check_switch, check_text
from mqflow.policy.dead_letters.actions import DeadLetter, Matcher, matcher, matchers
from mqflow.policy.dead_letters.rules import Action, PutAuthority, Rule, RulesError, RulesTable, parse
from mqflow.policy.dead_letters.rules.records import Control
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.dead_letters.dead_letter_handler import Rules
from mqflow.runtime.dead_letters.service import DeadLetterService
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.hooks import Broadcast
from mqflow.world import Clock

__all__ = ("DeadLetterRules", "Predicate")

Predicate = Callable[[DeadLetter], bool]

_logger: Final = logging.getLogger("mqflow")


class DeadLetterRules:
    """The rules of a DLQ handler: first the Python rules, in the order of their declaration, then the rules of the table.

    `App.dead_letter_handler` returns this object.
    """

    def __init__(self, table: str | Path | None, queue: str, *, reload: bool) -> None:
        given: object = table
        if given is not None and not isinstance(given, str | Path):
            problem = "it takes the path of a rules table, or None. A queue is the keyword queue"
            raise ConfigurationError(f"dead_letter_handler({given!r}): {problem}.")
        check_text("dead_letter_handler", "queue", queue)
        check_switch("dead_letter_handler", "reload", reload)
        self._path = None if table is None else Path(table)
        self._queue = queue
        self._reload = reload
        self._functions: list[Matcher] = []
        self._stamp = (0, 0)
        self._table = self._read() if self._path else RulesTable(())

    @property
    def queue(self) -> str:
        """The dead-letter queue: as declared, otherwise INPUTQ of the table; empty for the DEADQ of the queue manager."""
        return self._queue or self._table.control.input_queue

    @property
    def control(self) -> Control:
        """The control data of the table, its settings for all rules."""
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
        """Declare the decorated function as the condition of a rule. It returns whether the rule matches a `DeadLetter`.

        The DLQ handler carries out the action like that of a rule in its rules table. If the function raises an exception, the
        message stays on the queue, and the handler warns once. Raises `ValueError` for FWD without `forward_queue`, for another
        action with it, and for `attempts` below 1. Raises `ConfigurationError` for an async function.
        """
        if (action is Action.FWD) != bool(forward_queue):
            raise ValueError("Action.FWD needs forward_queue, and no other action takes one.")
        if not isinstance(attempts, int) or attempts < 1:
            raise ValueError(f"rule(attempts={attempts!r}): it takes a number, 1 or more.")
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
                name = function.__name__
                raise ConfigurationError(
                    f"{name} is async, but is called as a plain function: it would match every dead letter."
                )
            self._functions.append(matcher(rule, function, function.__name__))
            return function

        return declare

    def rules(self) -> Rules:
        """Return all rules, in the order in which the handler applies them."""
        # A function may read the body. The rules of the table read only the descriptor and the MQDLH.
        every = (*self._functions, *matchers(self._table.rules))
        return Rules(self._table.control, every, whole=bool(self._functions))

    def service(
        self, supervisor: Supervisor, *, broadcast: Broadcast, clock: Clock, records: ConnectionRecorder | None = None
    ) -> DeadLetterService:
        """Return the service that applies the rules. With `records`, it puts a record of each action."""
        changed = self._changed if self._reload and self._path else None
        return DeadLetterService(
            self.rules(), self.queue, supervisor, broadcast=broadcast, clock=clock, changed=changed, records=records
        )

    def _read(self) -> RulesTable:
        """Return the rules table in the file. Raises `RulesError` with all errors of the table."""
        assert self._path is not None  # noqa: S101 - called only if there is a file
        self._stamp = _stamp(self._path)
        table = parse(self._path.read_text("utf-8"))
        if not isinstance(table, RulesTable):
            raise RulesError(table)
        return table

    def _changed(self) -> Rules | None:
        """Return the new rules if the file has changed, otherwise None. If it has errors or is missing, the old rules stay."""
        assert self._path is not None  # noqa: S101 - as above
        if _stamp(self._path) in {self._stamp, (0, 0)}:
            return None
        try:
            self._table = self._read()
        except (RulesError, OSError, UnicodeDecodeError) as error:
            _logger.error("%s has changed, but the old rules stay in use: %s", self._path, error)  # noqa: TRY400 - no traceback helps
            return None
        _logger.info("%s has changed, and the new rules apply", self._path)
        return self.rules()


def _stamp(path: Path) -> tuple[int, int]:
    """Return a value that changes when the file changes; zeros if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)
