"""Decides what the owner of a connection must do after a reason code: retry, reopen, reconnect, wait, stop or move the message.

The decision is one table, and the page docs/reason-codes.md is made from it. IBM does not publish a list of the codes that
start a reconnection, so mqflow has made this table itself.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason

__all__ = ("CLASSES", "Class", "classify", "connection_gone", "leaves_in_doubt")


class Class(Enum):
    """The action that is necessary after a reason code."""

    RETRY = "retry"
    """Call again immediately: the unit of work was backed out, there was no message, or the buffer was too small."""
    REOPEN = "reopen"
    """Open the object again: its handle is no longer valid, but the connection is."""
    RECONNECT = "reconnect"
    """Make another connection: this connection is lost, or MQCONNX failed. Its unit of work is backed out."""
    WAIT = "wait"
    """Call again after a growing pause: the connection is good, and the cause can go away."""
    CONFIGURATION = "configuration"
    """A person must change something. A starting application stops with the reason; a running application logs it and waits."""
    MESSAGE = "message"
    """This message is the cause, not the queue or the connection: move or discard it, and continue with the next message."""


_RETRY: Final = (Reason.BACKED_OUT, Reason.NO_MSG_AVAILABLE, Reason.TRUNCATED_MSG_FAILED)

_REOPEN: Final = (
    Reason.HOBJ_ERROR,
    Reason.OBJECT_CHANGED,
    Reason.Q_DELETED,
    Reason.HOBJ_QUIESCED,
    Reason.RECONNECT_FAILED,
    Reason.HOBJ_QUIESCED_NO_MSGS,
    Reason.ALIAS_TARGTYPE_CHANGED,
    Reason.INVALID_DESTINATION,
    Reason.INVALID_SUBSCRIPTION,
)

_RECONNECT: Final = (
    # The connection existed and is lost.
    Reason.CONNECTION_BROKEN,
    Reason.HCONN_ERROR,
    Reason.Q_MGR_QUIESCING,
    Reason.Q_MGR_STOPPING,
    Reason.CONNECTION_QUIESCING,
    Reason.CONNECTION_STOPPING,
    Reason.CONNECTION_STOPPED,
    Reason.CONNECTION_ERROR,
    Reason.CHANNEL_STOPPED_BY_USER,
    Reason.Q_MGR_RECONNECT_REQUESTED,
    # The outcome of one call is unknown, and so is the state of the connection.
    Reason.CALL_INTERRUPTED,
    Reason.UNEXPECTED_ERROR,
    # The connection failed at MQCONNX; a later attempt, or another address, may succeed.
    Reason.Q_MGR_NOT_AVAILABLE,
    Reason.HOST_NOT_AVAILABLE,
    Reason.CHANNEL_NOT_AVAILABLE,
    Reason.STANDBY_Q_MGR,
    Reason.MAX_CONNS_LIMIT_REACHED,
    Reason.CONNECTION_NOT_AVAILABLE,
    Reason.ADAPTER_NOT_AVAILABLE,
)

_WAIT: Final = (
    Reason.GET_INHIBITED,
    Reason.PUT_INHIBITED,
    Reason.CLUSTER_PUT_INHIBITED,
    Reason.OBJECT_IN_USE,
    Reason.Q_FULL,
    Reason.Q_SPACE_NOT_AVAILABLE,
    Reason.STORAGE_MEDIUM_FULL,
    Reason.STORAGE_NOT_AVAILABLE,
    Reason.RESOURCE_PROBLEM,
    Reason.HANDLE_NOT_AVAILABLE,
    Reason.NO_DESTINATIONS_AVAILABLE,
    Reason.CLUSTER_RESOLUTION_ERROR,
    Reason.OBJECT_DAMAGED,
    # Another program uses the object.
    Reason.SUBSCRIPTION_IN_USE,
    Reason.NAME_IN_USE,
    Reason.CONN_ID_IN_USE,
    Reason.CONN_TAG_IN_USE,
    Reason.CONN_TAG_NOT_RELEASED,
    Reason.UOW_NOT_AVAILABLE,
    Reason.MSG_HANDLE_IN_USE,
    Reason.CALL_IN_PROGRESS,
    # The queue manager lacks a resource, or an administrator stopped a function.
    Reason.STOPPED_BY_CLUSTER_EXIT,
    Reason.CLUSTER_RESOURCE_ERROR,
    Reason.SUB_INHIBITED,
    Reason.PUBSUB_INHIBITED,
    Reason.PUBLICATION_FAILURE,
    Reason.PUT_NOT_RETAINED,
    Reason.RETAINED_MSG_Q_ERROR,
    Reason.NO_SUBSCRIPTION,
    Reason.CONNECTION_SUSPENDED,
    Reason.ADAPTER_STORAGE_SHORTAGE,
    Reason.PAGESET_ERROR,
    Reason.FILE_SYSTEM_ERROR,
    Reason.DB2_NOT_AVAILABLE,
    Reason.CF_NOT_AVAILABLE,
    Reason.CF_STRUC_IN_USE,
    Reason.CF_STRUC_LIST_HDR_IN_USE,
    Reason.CF_STRUC_FAILED,
    Reason.DATA_SET_NOT_AVAILABLE,
    Reason.HMSG_NOT_AVAILABLE,
    Reason.SERVICE_NOT_AVAILABLE,
    Reason.SELECTION_NOT_AVAILABLE,
)

_CONFIGURATION: Final = (
    # The user, and the authorities of the user.
    Reason.NOT_AUTHORIZED,
    Reason.SECURITY_ERROR,
    Reason.CONNECTION_NOT_AUTHORIZED,
    Reason.CHANNEL_BLOCKED,
    Reason.KEY_REPOSITORY_ERROR,
    Reason.SSL_CONFIG_ERROR,
    Reason.SSL_INITIALIZATION_ERROR,
    Reason.JSSE_ERROR,
    Reason.SSL_PEER_NAME_MISMATCH,
    Reason.SSL_PEER_NAME_ERROR,
    Reason.UNSUPPORTED_CIPHER_SUITE,
    Reason.SSL_CERTIFICATE_REVOKED,
    # The queue manager and the channel to connect to.
    Reason.Q_MGR_NAME_ERROR,
    Reason.CHANNEL_CONFIG_ERROR,
    Reason.UNKNOWN_CHANNEL_NAME,
    Reason.CD_ERROR,
    Reason.CLIENT_CONN_ERROR,
    Reason.CCDT_URL_ERROR,
    Reason.FUNCTION_NOT_SUPPORTED,
    Reason.ENVIRONMENT_ERROR,
    Reason.RECONNECT_QMID_MISMATCH,
    Reason.RECONNECT_INCOMPATIBLE,
    Reason.RECONNECT_Q_MGR_REQD,
    Reason.RECONNECT_TIMED_OUT,
    # The object to open, and the open options; the size of a unit of work.
    Reason.SYNCPOINT_LIMIT_REACHED,
    Reason.ALIAS_BASE_Q_TYPE_ERROR,
    Reason.UNKNOWN_ALIAS_BASE_Q,
    Reason.UNKNOWN_OBJECT_NAME,
    Reason.UNKNOWN_OBJECT_Q_MGR,
    Reason.UNKNOWN_REMOTE_Q_MGR,
    Reason.OBJECT_NAME_ERROR,
    Reason.OBJECT_Q_MGR_NAME_ERROR,
    Reason.OBJECT_TYPE_ERROR,
    Reason.Q_TYPE_ERROR,
    Reason.OPTION_NOT_VALID_FOR_TYPE,
    Reason.OPTIONS_ERROR,
    Reason.DYNAMIC_Q_NAME_ERROR,
    Reason.NOT_OPEN_FOR_BROWSE,
    Reason.NOT_OPEN_FOR_INPUT,
    Reason.NOT_OPEN_FOR_INQUIRE,
    Reason.NOT_OPEN_FOR_OUTPUT,
    Reason.NOT_OPEN_FOR_SET,
    Reason.NOT_OPEN_FOR_PASS_ALL,
    Reason.NOT_OPEN_FOR_PASS_IDENT,
    Reason.NOT_OPEN_FOR_SET_ALL,
    Reason.NOT_OPEN_FOR_SET_IDENT,
    Reason.CONTEXT_HANDLE_ERROR,
    Reason.CONTEXT_NOT_AVAILABLE,
    # The resolution of names.
    Reason.REMOTE_Q_NAME_ERROR,
    Reason.NAME_NOT_VALID_FOR_TYPE,
    Reason.UNKNOWN_XMIT_Q,
    Reason.UNKNOWN_DEF_XMIT_Q,
    Reason.XMIT_Q_TYPE_ERROR,
    Reason.XMIT_Q_USAGE_ERROR,
    Reason.DEF_XMIT_Q_TYPE_ERROR,
    Reason.DEF_XMIT_Q_USAGE_ERROR,
    Reason.STORAGE_CLASS_ERROR,
    Reason.OBJECT_NOT_UNIQUE,
    Reason.OBJECT_LEVEL_INCOMPATIBLE,
    # TLS, exits and installations.
    Reason.SCO_ERROR,
    Reason.AIR_ERROR,
    Reason.AUTH_INFO_REC_COUNT_ERROR,
    Reason.AUTH_INFO_REC_ERROR,
    Reason.AUTH_INFO_TYPE_ERROR,
    Reason.AUTH_INFO_CONN_NAME_ERROR,
    Reason.LDAP_USER_NAME_ERROR,
    Reason.LDAP_USER_NAME_LENGTH_ERR,
    Reason.LDAP_PASSWORD_ERROR,
    Reason.CRYPTO_HARDWARE_ERROR,
    Reason.SSL_ALREADY_INITIALIZED,
    Reason.SSL_NOT_ALLOWED,
    Reason.SSL_CERT_STORE_ERROR,
    Reason.SSL_KEY_RESET_ERROR,
    Reason.SSL_ALT_PROVIDER_REQUIRED,
    Reason.OCSP_URL_ERROR,
    Reason.CIPHER_SPEC_NOT_SUITE_B,
    Reason.SUITE_B_ERROR,
    Reason.CERT_VAL_POLICY_ERROR,
    Reason.CERT_LABEL_NOT_ALLOWED,
    Reason.PASSWORD_PROTECTION_ERROR,
    Reason.OUTBOUND_SNI_NOT_VALID,
    Reason.HTTPS_KEYSTORE_ERROR,
    Reason.NOT_PRIVILEGED,
    Reason.CLIENT_CHANNEL_CONFLICT,
    Reason.CLIENT_EXIT_LOAD_ERROR,
    Reason.CLIENT_EXIT_ERROR,
    Reason.PRECONN_EXIT_LOAD_ERROR,
    Reason.PRECONN_EXIT_NOT_FOUND,
    Reason.PRECONN_EXIT_ERROR,
    Reason.API_EXIT_NOT_FOUND,
    Reason.API_EXIT_LOAD_ERROR,
    Reason.API_EXIT_INIT_ERROR,
    Reason.MODULE_NOT_FOUND,
    Reason.MODULE_INVALID,
    Reason.MODULE_ENTRY_NOT_FOUND,
    Reason.INSTALLATION_MISMATCH,
    Reason.INSTALLATION_MISSING,
    Reason.ANOTHER_Q_MGR_CONNECTED,
    # The parameters of the program: a second attempt passes the same values.
    Reason.BUFFER_ERROR,
    Reason.BUFFER_LENGTH_ERROR,
    Reason.CHAR_ATTR_LENGTH_ERROR,
    Reason.CHAR_ATTRS_ERROR,
    Reason.CHAR_ATTRS_TOO_SHORT,
    Reason.INT_ATTR_COUNT_ERROR,
    Reason.INT_ATTR_COUNT_TOO_SMALL,
    Reason.INT_ATTRS_ARRAY_ERROR,
    Reason.INHIBIT_VALUE_ERROR,
    Reason.TRIGGER_CONTROL_ERROR,
    Reason.TRIGGER_DEPTH_ERROR,
    Reason.TRIGGER_MSG_PRIORITY_ERR,
    Reason.TRIGGER_TYPE_ERROR,
    Reason.SELECTOR_COUNT_ERROR,
    Reason.SELECTOR_LIMIT_EXCEEDED,
    Reason.SELECTOR_ERROR,
    Reason.SYNCPOINT_NOT_AVAILABLE,
    Reason.WAIT_INTERVAL_ERROR,
    Reason.MATCH_OPTIONS_ERROR,
    Reason.MSG_ID_ERROR,
    Reason.CORREL_ID_ERROR,
    Reason.MSG_TOKEN_ERROR,
    Reason.INCONSISTENT_BROWSE,
    Reason.OPTION_ENVIRONMENT_ERROR,
    Reason.OD_ERROR,
    Reason.GMO_ERROR,
    Reason.PMO_ERROR,
    Reason.CNO_ERROR,
    Reason.BO_ERROR,
    Reason.CSP_ERROR,
    Reason.BNO_ERROR,
    Reason.WRONG_GMO_VERSION,
    Reason.WRONG_MD_VERSION,
    Reason.RECS_PRESENT_ERROR,
    Reason.OBJECT_RECORDS_ERROR,
    Reason.RESPONSE_RECORDS_ERROR,
    Reason.PUT_MSG_RECORDS_ERROR,
    Reason.PMO_RECORD_FLAGS_ERROR,
    Reason.HMSG_ERROR,
    Reason.CMHO_ERROR,
    Reason.DMHO_ERROR,
    Reason.SMPO_ERROR,
    Reason.IMPO_ERROR,
    Reason.DMPO_ERROR,
    Reason.BMHO_ERROR,
    Reason.MHBO_ERROR,
    Reason.PD_ERROR,
    Reason.CBD_ERROR,
    Reason.CBD_OPTIONS_ERROR,
    Reason.CTLO_ERROR,
    Reason.CALLBACK_TYPE_ERROR,
    Reason.CALLBACK_ROUTINE_ERROR,
    Reason.CALLBACK_LINK_ERROR,
    Reason.MAX_MSG_LENGTH_ERROR,
    Reason.OPERATION_ERROR,
    # Subscriptions that cannot be made as requested.
    Reason.SD_ERROR,
    Reason.SRO_ERROR,
    Reason.SUB_NAME_ERROR,
    Reason.SUB_USER_DATA_ERROR,
    Reason.SUB_ALREADY_EXISTS,
    Reason.ALTER_SUB_ERROR,
    Reason.IDENTITY_MISMATCH,
    Reason.TOPIC_STRING_ERROR,
    Reason.OBJECT_STRING_ERROR,
    Reason.RES_OBJECT_STRING_ERROR,
    Reason.ADMIN_TOPIC_STRING_ERROR,
    Reason.DURABILITY_NOT_ALLOWED,
    Reason.DURABILITY_NOT_ALTERABLE,
    Reason.TOPIC_NOT_ALTERABLE,
    Reason.SUBLEVEL_NOT_ALTERABLE,
    Reason.GROUPING_NOT_ALTERABLE,
    Reason.GROUPING_NOT_ALLOWED,
    Reason.SELECTOR_NOT_ALTERABLE,
    Reason.DEST_CLASS_NOT_ALTERABLE,
    Reason.SELECTOR_SYNTAX_ERROR,
    Reason.SELECTOR_INVALID_FOR_TYPE,
    Reason.SELECTION_STRING_ERROR,
)

_MESSAGE: Final = (
    # The message was got, but not as requested.
    Reason.TRUNCATED_MSG_ACCEPTED,
    Reason.FORMAT_ERROR,
    Reason.SOURCE_CCSID_ERROR,
    Reason.SOURCE_INTEGER_ENC_ERROR,
    Reason.SOURCE_DECIMAL_ENC_ERROR,
    Reason.SOURCE_FLOAT_ENC_ERROR,
    Reason.TARGET_CCSID_ERROR,
    Reason.TARGET_INTEGER_ENC_ERROR,
    Reason.TARGET_DECIMAL_ENC_ERROR,
    Reason.TARGET_FLOAT_ENC_ERROR,
    Reason.NOT_CONVERTED,
    Reason.CONVERTED_MSG_TOO_BIG,
    Reason.CONVERTED_STRING_TOO_BIG,
    Reason.PARTIALLY_CONVERTED,
    Reason.DLH_ERROR,
    Reason.HEADER_ERROR,
    Reason.MDE_ERROR,
    Reason.RFH_ERROR,
    Reason.RFH_STRING_ERROR,
    Reason.RFH_FORMAT_ERROR,
    Reason.JMS_FORMAT_ERROR,
    Reason.MSG_NOT_MATCHED,
    Reason.BACKOUT_THRESHOLD_REACHED,
    # The message cannot be put as it is.
    Reason.MSG_TOO_BIG_FOR_Q,
    Reason.MSG_TOO_BIG_FOR_Q_MGR,
    Reason.MSG_TOO_BIG_FOR_CHANNEL,
    Reason.DATA_LENGTH_ERROR,  # to a client: longer than was negotiated for its channel
    Reason.EXPIRY_ERROR,
    Reason.FEEDBACK_ERROR,
    Reason.MD_ERROR,
    Reason.MISSING_REPLY_TO_Q,
    Reason.MSG_TYPE_ERROR,
    Reason.PERSISTENCE_ERROR,
    Reason.PERSISTENT_NOT_ALLOWED,
    Reason.PRIORITY_EXCEEDS_MAXIMUM,
    Reason.PRIORITY_ERROR,
    Reason.REPORT_OPTIONS_ERROR,
    Reason.UNKNOWN_REPORT_OPTION,
    Reason.INCONSISTENT_PERSISTENCE,
    Reason.SOURCE_LENGTH_ERROR,
    Reason.TARGET_LENGTH_ERROR,
    Reason.SOURCE_BUFFER_ERROR,
    Reason.TARGET_BUFFER_ERROR,
    Reason.DBCS_ERROR,
    Reason.CHAR_CONVERSION_ERROR,
    Reason.UCS2_CONVERSION_ERROR,
    Reason.PROP_VALUE_NOT_CONVERTED,
    Reason.PROP_NAME_NOT_CONVERTED,
    Reason.DH_ERROR,
    Reason.IIH_ERROR,
    Reason.RMH_ERROR,
    Reason.TMC_ERROR,
    Reason.WIH_ERROR,
    Reason.XQH_ERROR,
    Reason.EPH_ERROR,
    Reason.PCF_ERROR,
    Reason.RFH_COMMAND_ERROR,
    Reason.RFH_PARM_ERROR,
    Reason.RFH_DUPLICATE_PARM,
    Reason.RFH_PARM_MISSING,
    Reason.RFH_HEADER_FIELD_ERROR,
    Reason.RFH_RESTRICTED_FORMAT_ERR,
    # The properties of the message.
    Reason.PROPERTY_NAME_ERROR,
    Reason.PROPERTY_NAME_TOO_BIG,
    Reason.PROPERTY_NAME_LENGTH_ERR,
    Reason.PROPERTY_TYPE_ERROR,
    Reason.PROPERTY_VALUE_TOO_BIG,
    Reason.PROPERTIES_TOO_BIG,
    Reason.PROP_TYPE_NOT_SUPPORTED,
    Reason.PROP_CONV_NOT_SUPPORTED,
    Reason.PROP_NUMBER_FORMAT_ERROR,
    Reason.PROPERTY_NOT_AVAILABLE,
    Reason.UNSUPPORTED_PROPERTY,
    Reason.MIXED_CONTENT_NOT_ALLOWED,
    Reason.CONTENT_ERROR,
    Reason.MSG_LENGTH_ERROR,
    # The group and the segments of the message.
    Reason.GROUP_ID_ERROR,
    Reason.MSG_FLAGS_ERROR,
    Reason.MSG_SEQ_NUMBER_ERROR,
    Reason.OFFSET_ERROR,
    Reason.ORIGINAL_LENGTH_ERROR,
    Reason.SEGMENT_LENGTH_ZERO,
    Reason.SEGMENTS_NOT_SUPPORTED,
    Reason.SEGMENTATION_NOT_ALLOWED,
    Reason.INCOMPLETE_GROUP,
    Reason.INCOMPLETE_MSG,
    Reason.INCONSISTENT_CCSIDS,
    Reason.INCONSISTENT_ENCODINGS,
    Reason.MSG_NOT_ALLOWED_IN_GROUP,
    Reason.SUPPRESSED_BY_EXIT,
    Reason.COD_NOT_VALID_FOR_XCF_Q,
)

_GONE: Final = frozenset(
    {
        Reason.CONNECTION_BROKEN,
        Reason.CONNECTION_STOPPING,
        Reason.CONNECTION_STOPPED,
        Reason.Q_MGR_STOPPING,
        Reason.Q_MGR_NOT_AVAILABLE,
        Reason.CONNECTION_ERROR,
        Reason.HCONN_ERROR,
    }
)

CLASSES: Final[Mapping[int, Class]] = {
    reason: name
    for name, reasons in (
        (Class.RETRY, _RETRY),
        (Class.REOPEN, _REOPEN),
        (Class.RECONNECT, _RECONNECT),
        (Class.WAIT, _WAIT),
        (Class.CONFIGURATION, _CONFIGURATION),
        (Class.MESSAGE, _MESSAGE),
    )
    for reason in reasons
}
"""The class of each reason code. A code that is not listed has the class WAIT: a wait loses no message and is visible."""


def classify(reason: int) -> Class:
    """Return the class of a reason code; `Class.WAIT` if the table does not list it."""
    return CLASSES.get(reason, Class.WAIT)


def connection_gone(reason: int) -> bool:
    """Return whether a verb with this reason has lost its connection, so that no MQDISC can commit on the connection.

    Not all reasons of `Class.RECONNECT` count: after 2195 or 2549 the connection can still exist, and a connection that
    quiesces still exists.
    """
    return reason in _GONE


def leaves_in_doubt(error: MQIError) -> bool:
    """Return whether an MQCMIT with this error leaves the commit in doubt. Only 2003 does not: it means a backout."""
    return error.verb == "MQCMIT" and error.reason != Reason.BACKED_OUT
