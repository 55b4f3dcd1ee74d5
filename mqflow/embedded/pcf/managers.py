"""The PCF commands about the queue manager, and MQSC commands inside PCF (ESCAPE).

Source: IBM, "Change Queue Manager", "Inquire Queue Manager", "Ping Queue Manager", "Escape" and their responses.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import asdict

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.mqsc.commands import AlterQueueManagerCommand
from mqflow.embedded.mqsc.interpreter import Verdict, carry_out, run
from mqflow.embedded.mqsc.report import lines_of
from mqflow.embedded.pcf.queues import Command, Row
from mqflow.embedded.pcf.request import Request
from mqflow.embedded.pcf.selection import responses, wanted
from mqflow.embedded.pcf.values import settings_of
from mqflow.mqi.attributes.queue_manager import QUEUE_MANAGER_ATTRIBUTES
from mqflow.mqi.pcf.codes import CommandCode, ParameterId, PCFReason
from mqflow.mqi.pcf.structures import CFIN, CFST, PCFError

__all__ = ("MANAGER_COMMANDS", "EscapeFailedError")

Q_MGR_NAME: Final = 2015
_MQSC: Final = 1
_SETTABLE: Final = {spec.selector: spec for spec in QUEUE_MANAGER_ATTRIBUTES if not spec.read_only}


class EscapeFailedError(PCFError):
    """An MQSC command inside PCF has failed. `rows` contains the texts of its response."""

    def __init__(self, reason: int, rows: tuple[Row, ...]) -> None:
        super().__init__(reason, "MQSC command")
        self.rows = rows


def _ping(request: Request, _administration: Administration) -> None:
    """MQCMD_PING_Q_MGR: returns no rows. The OK response shows that the queue manager runs."""
    request.check((), (), filters=False)


def _inquire(request: Request, administration: Administration) -> Iterable[Row]:
    """MQCMD_INQUIRE_Q_MGR: returns one response."""
    request.check((), {ParameterId.Q_MGR_ATTRS}, filters=False)
    selectors = wanted(request, ParameterId.Q_MGR_ATTRS, (Q_MGR_NAME,))
    return responses([(asdict(administration.queue_manager), QUEUE_MANAGER_ATTRIBUTES)], selectors, None)


def _change(request: Request, administration: Administration) -> None:
    request.check((), None, filters=False)
    values = settings_of(request, _SETTABLE, {ParameterId.FORCE}, "the queue manager")
    carry_out(AlterQueueManagerCommand(values), administration)


def _escape(request: Request, administration: Administration) -> Iterable[Row]:
    """MQCMD_ESCAPE: carries out an MQSC command of any length. Each text of its response becomes a PCF response."""
    request.check((ParameterId.ESCAPE_TYPE, ParameterId.ESCAPE_TEXT), (), filters=False)
    request.choice(ParameterId.ESCAPE_TYPE, (_MQSC,), 0, PCFReason.ESCAPE_TYPE_ERROR)
    text = request.text(ParameterId.ESCAPE_TEXT)
    results = run(text, administration, line_chars_max=len(text))
    texts = [text for response in results.responses for text in lines_of(response)]
    rows = tuple((CFIN(ParameterId.ESCAPE_TYPE, _MQSC), CFST(ParameterId.ESCAPE_TEXT, text)) for text in texts)
    for response in results.responses:
        if response.verdict is not Verdict.DONE:
            raise EscapeFailedError(response.reason or PCFReason.PARM_SYNTAX_ERROR, rows)
    return rows


MANAGER_COMMANDS: Final[Mapping[CommandCode, Command]] = {
    CommandCode.PING_Q_MGR: _ping,
    CommandCode.INQUIRE_Q_MGR: _inquire,
    CommandCode.CHANGE_Q_MGR: _change,
    CommandCode.ESCAPE: _escape,
}
