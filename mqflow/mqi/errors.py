"""The exceptions of the MQI: one class for each reason that programs often catch, and `MQIError` for every other reason.

An exception builds its sentence from the verb, the object, the queue manager and the reason; the advice is a table. This module
decides nothing: `mqflow.policy` decides whether a reason means "reconnect".
"""

from typing import ClassVar, Final

from mqflow.mqi.reason_codes import CompletionCode, Reason, reason_name

__all__ = (
    "ADVICE",
    "ADVICE_CONNECTING",
    "BackedOutError",
    "CallInterruptedError",
    "ConnectionBrokenError",
    "GetInhibitedError",
    "HeaderError",
    "MQIError",
    "MessageTooBigError",
    "NotAuthorizedError",
    "ObjectInUseError",
    "OptionsError",
    "PutInhibitedError",
    "QueueFullError",
    "QueueManagerNotAvailableError",
    "QuiescingError",
    "UnknownObjectError",
    "error_for",
)

#: The advice for a reason, for the person who must solve the problem.
ADVICE: Final[dict[int, str]] = {
    Reason.ALIAS_BASE_Q_TYPE_ERROR: (
        "An alias may name a local queue, a remote queue or a topic object: ALTER QALIAS(...) TARGET(...)."
    ),
    Reason.BACKED_OUT: (
        "The unit of work was backed out: the messages that it got are delivered again, and the messages that it put are gone."
    ),
    Reason.CONNECTION_BROKEN: "The connection is lost. Nobody knows whether the call took effect.",
    Reason.DATA_LENGTH_ERROR: "The message is longer than the channel allows: raise MAXMSGL of the channel at both ends.",
    Reason.DYNAMIC_Q_NAME_ERROR: "The name for a dynamic queue is a full name, or a prefix of up to 32 characters and '*'.",
    Reason.EXPIRY_ERROR: "In an MQMD or MQSD, the expiry is in tenths of a second: more than 0, or -1 for unlimited.",
    Reason.GET_INHIBITED: "Gets are inhibited. ALTER QLOCAL(...) GET(ENABLED), or QALIAS(...) for an alias, allows them again.",
    Reason.HANDLE_NOT_AVAILABLE: "The connection has MAXHANDS open handles: close some, or ALTER QMGR MAXHANDS(...).",
    Reason.HCONN_ERROR: "The connection was disconnected, or belongs to another thread.",
    Reason.HOBJ_ERROR: "The object was closed, or was opened on another connection.",
    Reason.SUBSCRIPTION_IN_USE: (
        "A durable subscription has one user at a time: give each listener its own `durable` name, or stop the other one."
    ),
    Reason.SYNCPOINT_LIMIT_REACHED: "The unit of work holds MAXUMSGS messages: commit more often, or ALTER QMGR MAXUMSGS(...).",
    Reason.MISSING_REPLY_TO_Q: "A request, or a message that asks for reports, must name the queue to reply to.",
    Reason.MSG_TOO_BIG_FOR_Q: "Send less, or ALTER QLOCAL(...) MAXMSGL(...).",
    Reason.MSG_TOO_BIG_FOR_Q_MGR: "Send less, or ALTER QMGR MAXMSGL(...).",
    Reason.MSG_TOO_BIG_FOR_CHANNEL: "Send less, or raise MAXMSGL of the channel, at both of its ends.",
    Reason.NO_MSG_AVAILABLE: "There is no message that matches; wait longer, or match less.",
    Reason.NO_SUBSCRIPTION: "Check the spelling and the case of the subscription: DISPLAY SUB(*) lists them.",
    Reason.NO_MSG_UNDER_CURSOR: "Browse first: the cursor is before the first message, or its message is gone.",
    Reason.NOT_AUTHORIZED: "The user lacks the authority: SET AUTHREC for the object, or connect as another user.",
    Reason.NOT_OPEN_FOR_BROWSE: "Open the queue with OpenOption.BROWSE.",
    Reason.NOT_OPEN_FOR_INPUT: "Open the queue with one of the OpenOption.INPUT_* options.",
    Reason.NOT_OPEN_FOR_INQUIRE: "Open the object with OpenOption.INQUIRE.",
    Reason.NOT_OPEN_FOR_OUTPUT: "Open the queue with OpenOption.OUTPUT.",
    Reason.NOT_OPEN_FOR_SET: "Open the queue with OpenOption.SET.",
    Reason.OBJECT_IN_USE: "DISPLAY QSTATUS(...) TYPE(HANDLE) shows the applications that have a local queue open.",
    Reason.OPTION_NOT_VALID_FOR_TYPE: (
        "The type of the object does not allow these options. To get messages, open a local queue. To get from a topic, "
        "subscribe: @app.listener(topic=...)."
    ),
    Reason.OPTIONS_ERROR: "These options exclude each other, or a required option is missing.",
    Reason.PERSISTENT_NOT_ALLOWED: "A temporary dynamic queue takes non-persistent messages only.",
    Reason.PUT_INHIBITED: (
        "Puts are inhibited. ALTER QLOCAL(...) PUT(ENABLED), or QALIAS(...) for an alias, allows them again. "
        "For a topic it is ALTER TOPIC(...) PUB(ENABLED)."
    ),
    Reason.Q_DELETED: "The queue was deleted while it was open: define it and open it again.",
    Reason.Q_FULL: "The queue holds MAXDEPTH messages: consume some, or ALTER QLOCAL(...) MAXDEPTH(...).",
    Reason.Q_NOT_EMPTY: (
        "Uncommitted messages keep their queue. DELETE ... PURGE, or a close with CloseOption.DELETE_PURGE, deletes all other "
        "messages with the queue."
    ),
    Reason.Q_MGR_NAME_ERROR: "Check the name of the queue manager in the URL.",
    Reason.Q_MGR_NOT_AVAILABLE: "Start the queue manager, or check host and port.",
    Reason.UNKNOWN_ALIAS_BASE_Q: "The target queue of the alias does not exist: DEFINE it, or ALTER QALIAS(...) TARGET(...).",
    Reason.UNKNOWN_OBJECT_NAME: "Check the spelling and the case, or DEFINE it: QLOCAL(...), or TOPIC(...) for a topic object.",
    Reason.UNKNOWN_OBJECT_Q_MGR: (
        "Check the name of the queue manager. A queue of another queue manager can be opened for puts only."
    ),
    Reason.OBJECT_NAME_ERROR: "A name is 1 to 48 of A-Z a-z 0-9 . _ / %.",
    Reason.OBJECT_ALREADY_EXISTS: "Choose another name, use the existing object, or change it: DEFINE ... REPLACE.",
    Reason.RESOURCE_PROBLEM: "The queue manager ran out of a resource; its error log names the resource.",
    Reason.SELECTOR_SYNTAX_ERROR: "A selector is like a condition of SQL, with texts in single quotes: colour = 'red'.",
    Reason.STORAGE_MEDIUM_FULL: "The disk is full: puts are refused, gets continue. Free some space, or drain the queues.",
    Reason.Q_MGR_QUIESCING: "The queue manager is ending; no new work is accepted.",
    Reason.Q_MGR_STOPPING: "The queue manager is stopping. Nobody knows whether the call took effect.",
    Reason.CONNECTION_QUIESCING: "The connection is ending; no new work is accepted.",
    Reason.CALL_INTERRUPTED: "The outcome is unknown: check the queue before you repeat the call.",
    Reason.CONTEXT_HANDLE_ERROR: "The input handle must be open with OpenOption.SAVE_ALL_CONTEXT.",
    Reason.CONTEXT_NOT_AVAILABLE: "Get (not browse) a message on the input handle first.",
    Reason.NOT_OPEN_FOR_PASS_ALL: "Open the target with OpenOption.PASS_ALL_CONTEXT.",
    Reason.NOT_OPEN_FOR_PASS_IDENT: "Open the target with OpenOption.PASS_IDENTITY_CONTEXT.",
    Reason.NOT_OPEN_FOR_SET_ALL: "Open the target with OpenOption.SET_ALL_CONTEXT.",
    Reason.NOT_OPEN_FOR_SET_IDENT: "Open the target with OpenOption.SET_IDENTITY_CONTEXT.",
    Reason.TRUNCATED_MSG_FAILED: "The message is longer than the buffer and stays on the queue: use a larger buffer.",
    Reason.TRUNCATED_MSG_ACCEPTED: "The message was longer than the buffer; the rest of the message is lost.",
}

#: The advice for MQCONNX, if that advice differs from the advice above, or if no other call ends with the reason. IBM MQ writes
#: the cause of a refused client only to its own error log.
ADVICE_CONNECTING: Final[dict[int, str]] = {
    Reason.NOT_AUTHORIZED: (
        "Check user and password, and the authority to connect. Only the queue manager's error log has the cause: CONNAUTH, "
        "CHLAUTH or MCAUSER."
    ),
    Reason.SECURITY_ERROR: "The queue manager could not check the user: its error log has the cause.",
    Reason.CHANNEL_BLOCKED: "A CHLAUTH rule blocks this user, address or queue manager: DISPLAY CHLAUTH(...) shows which.",
    Reason.PASSWORD_PROTECTION_ERROR: (
        "The two ends do not agree on how to protect a password in transit. Use TLS, or see PasswordProtection in mqclient.ini "
        "and qm.ini."
    ),
    Reason.CONNECTION_BROKEN: (
        "The other end closed the connection. Either it is no listener of IBM MQ, or only one end uses TLS (SSLCIPH), or a "
        "CHLAUTH rule or an exit ended the channel. The queue manager's error log has the cause."
    ),
    Reason.HOST_NOT_AVAILABLE: "Nothing answers at this address: check host, port, the queue manager's listener, the network.",
    Reason.Q_MGR_NOT_AVAILABLE: "Start the queue manager and its listener, or check host and port.",
    Reason.STANDBY_Q_MGR: "The host has only a standby instance: name the hosts of all instances.",
    Reason.CHANNEL_NOT_AVAILABLE: "The channel is stopped, or has MAXINST or MAXINSTC connections: DISPLAY CHSTATUS(...).",
    Reason.CHANNEL_CONFIG_ERROR: "The two ends of the channel do not agree, most often on SSLCIPH: DISPLAY CHANNEL(...).",
    Reason.UNKNOWN_CHANNEL_NAME: "Check the spelling and the case, or DEFINE CHANNEL(...) CHLTYPE(SVRCONN).",
    Reason.MAX_CONNS_LIMIT_REACHED: "The queue manager has reached its maximum number of connections.",
    Reason.KEY_REPOSITORY_ERROR: (
        "IBM's client cannot use the key repository: check tls.key_repository, its file permissions, and its stash file or "
        "tls.key_repository_password_file."
    ),
    Reason.SSL_INITIALIZATION_ERROR: (
        "TLS could not be set up: check tls.key_repository, the certificates in it and tls.cipher_spec. The error log of IBM's "
        "client has the cause."
    ),
    Reason.SSL_ALREADY_INITIALIZED: "IBM's library uses one key repository in a process: that of the first connection.",
    Reason.SSL_PEER_NAME_MISMATCH: "The certificate of the queue manager has another name than tls.peer_name.",
    Reason.SSL_PEER_NAME_ERROR: "The value of tls.peer_name is not a distinguished name: CN=mq.example,O=Example.",
    Reason.UNSUPPORTED_CIPHER_SUITE: "IBM's client does not know tls.cipher_spec: ANY_TLS12_OR_HIGHER accepts most ciphers.",
    Reason.RECONNECT_QMID_MISMATCH: (
        "Only the queue manager of the first connection is accepted (reconnect.mode is QMGR). ANY accepts any of a group, and "
        "AFFINITY(PREFERRED) leads all connections of a host to one."
    ),
    Reason.CCDT_URL_ERROR: "IBM's client cannot read the table: it takes a URL, file:///path/ccdt.json.",
}


class MQIError(Exception):
    """An MQI call failed. The text has the verb, the object, the queue manager, the reason and advice.

    `reason` is the number (a `Reason` if that class has the number), `completion` is the completion code.
    """

    reasons: ClassVar[tuple[Reason, ...]] = ()

    def __init__(
        self,
        reason: int,
        verb: str = "MQI call",
        object_name: str = "",
        queue_manager: str = "",
        detail: str = "",
        completion: CompletionCode = CompletionCode.FAILED,
    ) -> None:
        self.reason: Reason | int = Reason(reason) if reason in _KNOWN else reason
        self.verb = verb
        self.object_name = object_name
        self.queue_manager = queue_manager
        self.detail = detail
        self.completion = completion
        super().__init__(reason, verb, object_name, queue_manager, detail, completion)

    def __str__(self) -> str:
        where = f" on {self.object_name}" if self.object_name else ""
        if self.queue_manager:
            where += f" ({self.queue_manager})"
        ended = "ended with a warning" if self.completion is CompletionCode.WARNING else "failed"
        sentences = [f"{self.verb}{where} {ended}: {reason_name(self.reason)}."]
        if self.detail:
            sentences.append(self.detail if self.detail.endswith(".") else f"{self.detail}.")
        advice = ADVICE_CONNECTING.get(self.reason) if self.verb == "MQCONNX" else None
        if self.reason not in _DETAILED or not self.detail:  # the detail names the option or the object, but the advice cannot
            sentences.append(advice or ADVICE.get(self.reason, ""))
        return " ".join(filter(None, sentences))


class BackedOutError(MQIError):
    """The unit of work is certainly backed out (2003)."""

    reasons: ClassVar[tuple[Reason, ...]] = (Reason.BACKED_OUT,)


class ConnectionBrokenError(MQIError):
    """The connection is lost (2009); a call in flight may or may not have taken effect."""

    reasons: ClassVar[tuple[Reason, ...]] = (
        Reason.CONNECTION_BROKEN,
        Reason.CONNECTION_STOPPING,
        Reason.Q_MGR_STOPPING,
        Reason.CONNECTION_ERROR,
    )


class CallInterruptedError(MQIError):
    """The outcome of the call is unknown (2549): never repeat the call on another connection."""

    reasons: ClassVar[tuple[Reason, ...]] = (Reason.CALL_INTERRUPTED,)


class QuiescingError(MQIError):
    """The queue manager or the connection is ending (2161, 2202)."""

    reasons: ClassVar[tuple[Reason, ...]] = (Reason.Q_MGR_QUIESCING, Reason.CONNECTION_QUIESCING)


class GetInhibitedError(MQIError):
    """The queue, or the alias under which it is open, is inhibited for gets (2016)."""

    reasons: ClassVar[tuple[Reason, ...]] = (Reason.GET_INHIBITED,)


class PutInhibitedError(MQIError):
    """The queue, or the alias under which it is open, is inhibited for puts (2051)."""

    reasons: ClassVar[tuple[Reason, ...]] = (Reason.PUT_INHIBITED,)


class QueueFullError(MQIError):
    """The queue holds MAXDEPTH messages (2053), or the disk is full (2192)."""

    reasons: ClassVar[tuple[Reason, ...]] = (Reason.Q_FULL, Reason.STORAGE_MEDIUM_FULL)


class MessageTooBigError(MQIError):
    """The message is longer than the queue (2030) or the queue manager (2031) allows."""

    reasons: ClassVar[tuple[Reason, ...]] = (Reason.MSG_TOO_BIG_FOR_Q, Reason.MSG_TOO_BIG_FOR_Q_MGR)


class NotAuthorizedError(MQIError):
    """The user lacks an authority (2035)."""

    reasons: ClassVar[tuple[Reason, ...]] = (Reason.NOT_AUTHORIZED,)


class ObjectInUseError(MQIError):
    """The queue is open in a way that excludes this open (2042)."""

    reasons: ClassVar[tuple[Reason, ...]] = (Reason.OBJECT_IN_USE,)


class OptionsError(MQIError):
    """The options exclude each other (2046) or are not valid for the type of the object (2045)."""

    reasons: ClassVar[tuple[Reason, ...]] = (Reason.OPTIONS_ERROR, Reason.OPTION_NOT_VALID_FOR_TYPE)


class UnknownObjectError(MQIError):
    """The queue (2085), the target of an alias (2082) or the queue manager (2086) does not exist."""

    reasons: ClassVar[tuple[Reason, ...]] = (
        Reason.UNKNOWN_OBJECT_NAME,
        Reason.UNKNOWN_ALIAS_BASE_Q,
        Reason.UNKNOWN_OBJECT_Q_MGR,
    )


class QueueManagerNotAvailableError(MQIError):
    """No queue manager answers under that name (2058, 2059)."""

    reasons: ClassVar[tuple[Reason, ...]] = (Reason.Q_MGR_NOT_AVAILABLE, Reason.Q_MGR_NAME_ERROR)


class HeaderError(MQIError):
    """A header in the message data is malformed (2142, 2334 ...); the message itself is not changed."""

    reasons: ClassVar[tuple[Reason, ...]] = (
        Reason.HEADER_ERROR,
        Reason.RFH_ERROR,
        Reason.RFH_STRING_ERROR,
        Reason.DLH_ERROR,
        Reason.MDE_ERROR,
    )


_DETAILED: Final = frozenset({Reason.OPTIONS_ERROR, Reason.UNKNOWN_OBJECT_NAME})
_KNOWN: Final = frozenset(int(reason) for reason in Reason)
_CLASSES: Final[dict[int, type[MQIError]]] = {reason: error for error in MQIError.__subclasses__() for reason in error.reasons}


def error_for(reason: int, verb: str, object_name: str = "", queue_manager: str = "", detail: str = "") -> MQIError:
    """Return the exception for this reason, in its most specific class."""
    return _CLASSES.get(reason, MQIError)(reason, verb, object_name, queue_manager, detail)
