"""The exceptions of the MQI: one class for each reason that somebody branches on, `MQIError` for every other.

An exception builds its own sentence from what was tried, on what, where, and what came back; the advice is a table. Decides
nothing: whether a reason means "reconnect" is the policy floor's business.
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

#: What to do about a reason: one sentence a person can act on.
ADVICE: Final[dict[int, str]] = {
    Reason.ALIAS_BASE_Q_TYPE_ERROR: "An alias may name a local queue only, not another alias: ALTER QALIAS ... TARGET(...).",
    Reason.BACKED_OUT: "The unit of work was backed out; its messages will be delivered again.",
    Reason.CONNECTION_BROKEN: "The connection is gone. Whether the call took effect is not known.",
    Reason.DATA_LENGTH_ERROR: "It is longer than the channel carries: raise MAXMSGL of the channel, at both of its ends.",
    Reason.DYNAMIC_Q_NAME_ERROR: "A dynamic queue's name is a full name, or a prefix of up to 32 characters and '*'.",
    Reason.EXPIRY_ERROR: "Expiry is in tenths of a second: more than 0, or -1 for unlimited.",
    Reason.GET_INHIBITED: "The queue is inhibited for gets. ALTER QLOCAL(...) GET(ENABLED) allows them again.",
    Reason.HANDLE_NOT_AVAILABLE: "The connection has MAXHANDS open handles: close some, or ALTER QMGR MAXHANDS(...).",
    Reason.HCONN_ERROR: "The connection was disconnected, or belongs to another thread.",
    Reason.HOBJ_ERROR: "The object was closed, or was opened on another connection.",
    Reason.SYNCPOINT_LIMIT_REACHED: "The unit of work holds MAXUMSGS messages: commit more often, or ALTER QMGR MAXUMSGS(...).",
    Reason.MISSING_REPLY_TO_Q: "A request, or a message that asks for reports, must name the queue to reply to.",
    Reason.MSG_TOO_BIG_FOR_Q: "Send less, or ALTER QLOCAL(...) MAXMSGL(...).",
    Reason.MSG_TOO_BIG_FOR_Q_MGR: "Send less, or ALTER QMGR MAXMSGL(...).",
    Reason.MSG_TOO_BIG_FOR_CHANNEL: "Send less, or raise MAXMSGL of the channel, at both of its ends.",
    Reason.NO_MSG_AVAILABLE: "There is no message that matches; wait longer, or match less.",
    Reason.NO_MSG_UNDER_CURSOR: "Browse first: the cursor is before the first message, or its message is gone.",
    Reason.NOT_AUTHORIZED: "The user lacks the authority: SET AUTHREC for the object, or connect as another user.",
    Reason.NOT_OPEN_FOR_BROWSE: "Open the queue with OpenOption.BROWSE.",
    Reason.NOT_OPEN_FOR_INPUT: "Open the queue with one of the OpenOption.INPUT_* options.",
    Reason.NOT_OPEN_FOR_INQUIRE: "Open the object with OpenOption.INQUIRE.",
    Reason.NOT_OPEN_FOR_OUTPUT: "Open the queue with OpenOption.OUTPUT.",
    Reason.NOT_OPEN_FOR_SET: "Open the queue with OpenOption.SET.",
    Reason.OBJECT_IN_USE: "Somebody has the queue open exclusively, or it is NOSHARE: DISPLAY QSTATUS(...) says how many.",
    Reason.OPTION_NOT_VALID_FOR_TYPE: "An alias or model cannot be opened that way; open the local queue.",
    Reason.OPTIONS_ERROR: "These options exclude each other, or none of the required ones is given.",
    Reason.PERSISTENT_NOT_ALLOWED: "A temporary dynamic queue takes non-persistent messages only.",
    Reason.PUT_INHIBITED: "The queue is inhibited for puts. ALTER QLOCAL(...) PUT(ENABLED) allows them again.",
    Reason.Q_DELETED: "The queue was deleted while it was open: define it and open it again.",
    Reason.Q_FULL: "The queue holds MAXDEPTH messages: consume some, or ALTER QLOCAL(...) MAXDEPTH(...).",
    Reason.Q_NOT_EMPTY: "Read or CLEAR the queue first, or close it with CloseOption.DELETE_PURGE.",
    Reason.Q_MGR_NAME_ERROR: "Check the name of the queue manager in the URL.",
    Reason.Q_MGR_NOT_AVAILABLE: "Start the queue manager, or check host and port.",
    Reason.UNKNOWN_ALIAS_BASE_Q: "The queue the alias names does not exist: DEFINE it, or ALTER QALIAS(...) TARGET(...).",
    Reason.UNKNOWN_OBJECT_NAME: "Check the spelling and the case, or DEFINE it: QLOCAL(...), or TOPIC(...) for a topic object.",
    Reason.UNKNOWN_OBJECT_Q_MGR: "Only queues of this queue manager can be reached here.",
    Reason.OBJECT_NAME_ERROR: "A name is 1 to 48 of A-Z a-z 0-9 . _ / %.",
    Reason.OBJECT_ALREADY_EXISTS: "Choose another name, use what is there, or change it: DEFINE ... REPLACE.",
    Reason.RESOURCE_PROBLEM: "The queue manager ran out of something; its own log says of what.",
    Reason.STORAGE_MEDIUM_FULL: "The disk is full: puts are refused, gets go on. Free some space, or drain the queues.",
    Reason.Q_MGR_QUIESCING: "The queue manager is ending; no new work is accepted.",
    Reason.Q_MGR_STOPPING: "The queue manager is stopping. Whether the call took effect is not known.",
    Reason.CONNECTION_QUIESCING: "The connection is ending; no new work is accepted.",
    Reason.CALL_INTERRUPTED: "The outcome is unknown: look for the messages before doing it again.",
    Reason.CONTEXT_HANDLE_ERROR: "The input handle must be open with OpenOption.SAVE_ALL_CONTEXT.",
    Reason.CONTEXT_NOT_AVAILABLE: "Get (not browse) a message on the input handle first.",
    Reason.NOT_OPEN_FOR_PASS_ALL: "Open the target with OpenOption.PASS_ALL_CONTEXT.",
    Reason.NOT_OPEN_FOR_PASS_IDENT: "Open the target with OpenOption.PASS_IDENTITY_CONTEXT.",
    Reason.NOT_OPEN_FOR_SET_ALL: "Open the target with OpenOption.SET_ALL_CONTEXT.",
    Reason.NOT_OPEN_FOR_SET_IDENT: "Open the target with OpenOption.SET_IDENTITY_CONTEXT.",
    Reason.TRUNCATED_MSG_FAILED: "The message is longer than the buffer and stays on the queue: use a larger one.",
    Reason.TRUNCATED_MSG_ACCEPTED: "The message was longer than the buffer; the rest of it is gone.",
}

#: The same for MQCONNX, where it is something else, or the only call that ends so. What IBM MQ tells nobody but its own log is
#: why it refuses a client.
ADVICE_CONNECTING: Final[dict[int, str]] = {
    Reason.NOT_AUTHORIZED: (
        "Check user and password, and the authority to connect. IBM MQ says why in the queue manager's error log only; it goes "
        "by CONNAUTH, CHLAUTH and MCAUSER."
    ),
    Reason.SECURITY_ERROR: "The queue manager could not check who connects: its error log says why.",
    Reason.CHANNEL_BLOCKED: "A CHLAUTH rule blocks this user, address or queue manager: DISPLAY CHLAUTH(...) shows which.",
    Reason.PASSWORD_PROTECTION_ERROR: (
        "The two ends do not agree how a password is kept from being read on its way: use TLS, or see PasswordProtection in "
        "mqclient.ini and qm.ini."
    ),
    Reason.CONNECTION_BROKEN: (
        "The other end hung up: it is no listener of IBM MQ, only one of the two uses TLS (SSLCIPH), or a CHLAUTH rule or an "
        "exit ended the channel. The queue manager's error log says which."
    ),
    Reason.HOST_NOT_AVAILABLE: "Nobody answers there: check host and port, the queue manager's listener, and what is between.",
    Reason.Q_MGR_NOT_AVAILABLE: "Start the queue manager and its listener, or check host and port.",
    Reason.STANDBY_Q_MGR: "Only a standby is there: name the hosts of all instances.",
    Reason.CHANNEL_NOT_AVAILABLE: "The channel is stopped, or has MAXINST or MAXINSTC connections: DISPLAY CHSTATUS(...).",
    Reason.CHANNEL_CONFIG_ERROR: "The two ends of the channel do not agree, on SSLCIPH most often: DISPLAY CHANNEL(...).",
    Reason.UNKNOWN_CHANNEL_NAME: "Check the spelling and the case, or DEFINE CHANNEL(...) CHLTYPE(SVRCONN) there.",
    Reason.MAX_CONNS_LIMIT_REACHED: "The queue manager has as many connections as it may have.",
    Reason.KEY_REPOSITORY_ERROR: (
        "IBM's client cannot use the key repository: check tls.key_repository, who may read it, and its stash file or "
        "tls.key_repository_password_file."
    ),
    Reason.SSL_INITIALIZATION_ERROR: (
        "TLS could not be set up: check tls.key_repository, the certificates in it and tls.cipher_spec. The error log of IBM's "
        "client says which."
    ),
    Reason.SSL_ALREADY_INITIALIZED: "IBM's library takes one key repository in a process: that of the first connection.",
    Reason.SSL_PEER_NAME_MISMATCH: "The queue manager's certificate says another name than tls.peer_name.",
    Reason.SSL_PEER_NAME_ERROR: "What tls.peer_name says is no distinguished name: CN=mq.example,O=Example.",
    Reason.UNSUPPORTED_CIPHER_SUITE: "IBM's client does not know tls.cipher_spec: ANY_TLS12_OR_HIGHER says the least.",
    Reason.RECONNECT_QMID_MISMATCH: (
        "Only the queue manager that was reached first will do (reconnect.mode is QMGR); ANY takes any of a group, and "
        "AFFINITY(PREFERRED) leads all connections of a host to one."
    ),
    Reason.CCDT_URL_ERROR: "IBM's client cannot read the table: it takes a URL, file:///path/ccdt.json.",
}


class MQIError(Exception):
    """A verb failed. The sentence says verb, object, queue manager, reason, and what to do.

    `reason` is the number (a `Reason` where the table knows it), `completion` the completion code.
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
        self.reason = Reason(reason) if reason in _KNOWN else reason
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
        said = "ended with a warning" if self.completion is CompletionCode.WARNING else "failed"
        sentences = [f"{self.verb}{where} {said}: {reason_name(self.reason)}."]
        if self.detail:
            sentences.append(self.detail if self.detail.endswith(".") else f"{self.detail}.")
        advice = ADVICE_CONNECTING.get(self.reason) if self.verb == "MQCONNX" else None
        sentences.append(advice or ADVICE.get(self.reason, ""))
        return " ".join(filter(None, sentences))


class BackedOutError(MQIError):
    """The unit of work is certainly backed out (2003)."""

    reasons = (Reason.BACKED_OUT,)


class ConnectionBrokenError(MQIError):
    """The connection is lost (2009); a call in flight may or may not have taken effect."""

    reasons = (Reason.CONNECTION_BROKEN, Reason.CONNECTION_STOPPING, Reason.Q_MGR_STOPPING, Reason.CONNECTION_ERROR)


class CallInterruptedError(MQIError):
    """The outcome of the call is unknown (2549): never repeat it elsewhere."""

    reasons = (Reason.CALL_INTERRUPTED,)


class QuiescingError(MQIError):
    """The queue manager or the connection is ending (2161, 2202)."""

    reasons = (Reason.Q_MGR_QUIESCING, Reason.CONNECTION_QUIESCING)


class GetInhibitedError(MQIError):
    """The queue, or the alias it was opened by, is inhibited for gets (2016)."""

    reasons = (Reason.GET_INHIBITED,)


class PutInhibitedError(MQIError):
    """The queue, or the alias it was opened by, is inhibited for puts (2051)."""

    reasons = (Reason.PUT_INHIBITED,)


class QueueFullError(MQIError):
    """The queue holds MAXDEPTH messages (2053), or the disk is full (2192)."""

    reasons = (Reason.Q_FULL, Reason.STORAGE_MEDIUM_FULL)


class MessageTooBigError(MQIError):
    """The message is longer than the queue (2030) or the queue manager (2031) allows."""

    reasons = (Reason.MSG_TOO_BIG_FOR_Q, Reason.MSG_TOO_BIG_FOR_Q_MGR)


class NotAuthorizedError(MQIError):
    """The user lacks an authority (2035)."""

    reasons = (Reason.NOT_AUTHORIZED,)


class ObjectInUseError(MQIError):
    """The queue is open in a way that excludes this open (2042)."""

    reasons = (Reason.OBJECT_IN_USE,)


class OptionsError(MQIError):
    """The options exclude each other (2046) or do not go with the object's type (2045)."""

    reasons = (Reason.OPTIONS_ERROR, Reason.OPTION_NOT_VALID_FOR_TYPE)


class UnknownObjectError(MQIError):
    """There is no such queue (2085), alias base (2082), or queue manager (2086)."""

    reasons = (Reason.UNKNOWN_OBJECT_NAME, Reason.UNKNOWN_ALIAS_BASE_Q, Reason.UNKNOWN_OBJECT_Q_MGR)


class QueueManagerNotAvailableError(MQIError):
    """No queue manager answers under that name (2058, 2059)."""

    reasons = (Reason.Q_MGR_NOT_AVAILABLE, Reason.Q_MGR_NAME_ERROR)


class HeaderError(MQIError):
    """A header in the message data does not hold together (2142, 2334 ...); the message itself is untouched."""

    reasons = (Reason.HEADER_ERROR, Reason.RFH_ERROR, Reason.RFH_STRING_ERROR, Reason.DLH_ERROR, Reason.MDE_ERROR)


_KNOWN: Final = frozenset(int(reason) for reason in Reason)
_CLASSES: Final[dict[int, type[MQIError]]] = {reason: error for error in MQIError.__subclasses__() for reason in error.reasons}


def error_for(reason: int, verb: str, object_name: str = "", queue_manager: str = "", detail: str = "") -> MQIError:
    """Return the exception for this reason, of the class that says it most exactly."""
    return _CLASSES.get(reason, MQIError)(reason, verb, object_name, queue_manager, detail)
