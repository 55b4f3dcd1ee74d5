"""What a script asks for, as records: one for each command that the embedded queue manager carries out. Knows no syntax."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from msgspec import Struct

from mqflow.embedded.catalogue.kinds import Noun
from mqflow.mqi.authorities import Authority, Kind
from mqflow.mqi.options import QueueType

__all__ = (
    "Act",
    "Action",
    "Alter",
    "AlterObject",
    "AlterQueueManager",
    "AuthorityAct",
    "Clear",
    "ClearTopic",
    "Command",
    "Define",
    "DefineObject",
    "DefineOfTopics",
    "Delete",
    "DeleteAuthority",
    "DeleteObject",
    "DeleteOfTopics",
    "Display",
    "DisplayAuthorities",
    "DisplayChannelStatus",
    "DisplayConnections",
    "DisplayEntity",
    "DisplayObjects",
    "DisplayOfTopics",
    "DisplayQueueManager",
    "DisplayQueues",
    "DisplayStatus",
    "End",
    "ObjectAct",
    "Operator",
    "Ping",
    "RefreshSecurity",
    "Selection",
    "SetAuthority",
    "SyntaxProblem",
    "TopicAct",
    "TopicNoun",
    "Unsupported",
    "Value",
    "Where",
    "Whose",
)

Value = bool | int | str | tuple[str, ...]
"""What an attribute is set to."""

TopicNoun = Literal["TOPIC", "SUB", "TPSTATUS", "SBSTATUS"]
"""What publish/subscribe has that can be defined or shown."""


class Operator(StrEnum):
    """How WHERE compares."""

    LT = "LT"
    GT = "GT"
    EQ = "EQ"
    NE = "NE"
    LE = "LE"
    GE = "GE"
    LK = "LK"
    NL = "NL"


class Where(Struct, frozen=True):
    """Only what compares like this is shown; what does not have the attribute is not."""

    keyword: str
    operator: Operator
    operand: Value


class Selection(Struct, frozen=True):
    """What a DISPLAY shows of each object: everything, or its name, its type and these."""

    everything: bool
    keywords: frozenset[str] = frozenset()
    where: Where | None = None


class Define(Struct, frozen=True):
    """DEFINE QLOCAL, QALIAS or QMODEL. What `values` leaves out comes from `like`, or from the default queue of the kind."""

    kind: QueueType
    name: str
    values: Mapping[str, Value]
    like: str = ""
    replace: bool = False


class Alter(Struct, frozen=True):
    """ALTER QLOCAL, QALIAS or QMODEL; what `values` leaves out stays."""

    kind: QueueType
    name: str
    values: Mapping[str, Value]
    force: bool = False


class AlterQueueManager(Struct, frozen=True):
    """ALTER QMGR."""

    values: Mapping[str, Value]


class Delete(Struct, frozen=True):
    """DELETE QLOCAL, QALIAS or QMODEL."""

    kind: QueueType
    name: str
    purge: bool = False
    #: IGNSTATE(YES): no queue of that name is no failure.
    ignore_state: bool = False
    #: AUTHREC(NO): the authority records of this name stay.
    keep_authorities: bool = False


class Clear(Struct, frozen=True):
    """CLEAR QLOCAL."""

    name: str


class DisplayQueues(Struct, frozen=True):
    """DISPLAY QUEUE, QLOCAL, QALIAS or QMODEL."""

    #: A name, or a generic one that ends in an asterisk.
    pattern: str
    #: None for queues of every kind.
    kind: QueueType | None
    selection: Selection


class DisplayStatus(Struct, frozen=True):
    """DISPLAY QSTATUS."""

    pattern: str
    #: TYPE(HANDLE) rather than TYPE(QUEUE).
    handles: bool
    selection: Selection


class DisplayQueueManager(Struct, frozen=True):
    """DISPLAY QMGR."""

    selection: Selection


class Ping(Struct, frozen=True):
    """PING QMGR: is it there."""


class End(Struct, frozen=True):
    """END, QUIT or EXIT: nothing after it is read."""


class Unsupported(Struct, frozen=True):
    """A command that MQSC has and the embedded queue manager has not."""

    #: Verb and noun: "DEFINE CHANNEL".
    what: str


class Whose(Struct, frozen=True):
    """PRINCIPAL or GROUP."""

    entity: str
    group: bool


class SetAuthority(Struct, frozen=True):
    """SET AUTHREC; its words expanded."""

    profile: str
    kind: Kind
    whose: Whose
    add: tuple[Authority, ...]
    remove: tuple[Authority, ...]


class DeleteAuthority(Struct, frozen=True):
    """DELETE AUTHREC."""

    profile: str
    kind: Kind
    whose: Whose


class DisplayAuthorities(Struct, frozen=True):
    """DISPLAY AUTHREC."""

    #: Empty for all.
    profile: str
    #: None for all.
    kind: Kind | None
    whose: Whose | None
    #: MATCH(EXACT): not the generic profiles that apply to it.
    exact: bool


class DisplayEntity(Struct, frozen=True):
    """DISPLAY ENTAUTH."""

    name: str
    kind: Kind
    whose: Whose


class RefreshSecurity(Struct, frozen=True):
    """REFRESH SECURITY."""

    #: AUTHSERV: who is in which group. Of the others nothing is kept here.
    what: str


class DefineOfTopics(Struct, frozen=True):
    """DEFINE or ALTER TOPIC or SUB. What DEFINE leaves out comes from `like`, or from the default."""

    noun: TopicNoun
    name: str
    values: Mapping[str, Value]
    like: str = ""
    replace: bool = False
    alters: bool = False


class DeleteOfTopics(Struct, frozen=True):
    """DELETE TOPIC or SUB."""

    noun: TopicNoun
    name: str
    ignore_state: bool = False


class ClearTopic(Struct, frozen=True):
    """CLEAR TOPICSTR CLRTYPE(RETAINED)."""

    topic_string: str


class DisplayOfTopics(Struct, frozen=True):
    """DISPLAY TOPIC, SUB, TPSTATUS or SBSTATUS."""

    noun: TopicNoun
    pattern: str
    selection: Selection


TopicAct = DefineOfTopics | DeleteOfTopics | ClearTopic


class DefineObject(Struct, frozen=True):
    """DEFINE CHANNEL, NAMELIST, PROCESS ... What `values` leaves out comes from `like`, or from the default object."""

    noun: Noun
    name: str
    values: Mapping[str, Value]
    #: Of which type it is (CHLTYPE, AUTHTYPE); 0 where there is one type only.
    kind: int = 0
    like: str = ""
    replace: bool = False


class AlterObject(Struct, frozen=True):
    """ALTER CHANNEL, NAMELIST, PROCESS ...; what `values` leaves out stays."""

    noun: Noun
    name: str
    values: Mapping[str, Value]
    #: 0 for whatever type it is.
    kind: int = 0


class DeleteObject(Struct, frozen=True):
    """DELETE CHANNEL, NAMELIST, PROCESS ..."""

    noun: Noun
    name: str
    #: CHLTABLE(CLNTTAB): a client-connection channel. None for whichever there is.
    client: bool | None = None
    #: IGNSTATE(YES): no object of that name is no failure.
    ignore_state: bool = False


class DisplayObjects(Struct, frozen=True):
    """DISPLAY CHANNEL, NAMELIST, PROCESS ..."""

    noun: Noun
    pattern: str
    #: Of this type only; 0 for any.
    kind: int
    selection: Selection


class DisplayConnections(Struct, frozen=True):
    """DISPLAY CONN."""

    #: The beginning of an identifier, with an asterisk; or all of it.
    pattern: str
    #: TYPE(HANDLE) rather than TYPE(CONN).
    handles: bool
    selection: Selection


class DisplayChannelStatus(Struct, frozen=True):
    """DISPLAY CHSTATUS: nothing runs through a channel, so none has a status."""

    pattern: str


Display = (
    DisplayQueues
    | DisplayStatus
    | DisplayQueueManager
    | DisplayAuthorities
    | DisplayEntity
    | DisplayOfTopics
    | DisplayObjects
    | DisplayConnections
    | DisplayChannelStatus
)
"""What only looks."""

AuthorityAct = SetAuthority | DeleteAuthority | RefreshSecurity
ObjectAct = DefineObject | AlterObject | DeleteObject
Act = Define | Alter | AlterQueueManager | Delete | Clear | Ping | End | AuthorityAct | ObjectAct | TopicAct
"""What is done and has nothing to show."""

Action = Act | Display | Unsupported


class Command(Struct, frozen=True):
    """A command that was understood."""

    action: Action
    #: As it was written, in one line.
    text: str
    #: The line it starts on, from 1.
    line: int
    #: Attributes that MQSC has and the embedded queue manager has not; the rest of the command holds without them.
    ignored: tuple[str, ...] = ()


class SyntaxProblem(Struct, frozen=True):
    """A command that could not be understood, and where it stops making sense."""

    message: str
    #: As it was written, in one line; where it has no end, its last line.
    text: str
    line: int
    column: int
    #: The line of the script that `line` and `column` point into.
    source: str
