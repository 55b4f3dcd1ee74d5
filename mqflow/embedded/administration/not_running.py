"""Answers commands about message channels, services and clusters. None of these run in the embedded queue manager.

A command succeeds if nothing is left to change, for example because no channel has a unit of work in doubt. Any other command
is refused with a reason. This file works on any `Administration`: of this process, or of a served queue manager.
Source: IBM, PING, PURGE, RESET and RESOLVE CHANNEL, START and STOP SERVICE, REFRESH and RESET CLUSTER, REFRESH, RESUME and
SUSPEND QMGR.
"""

from collections.abc import Mapping
from typing import Final, Literal, assert_never

from msgspec import Struct

from mqflow.embedded.administration.interface import Administration
from mqflow.mqi.attributes.channel import ChannelType
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.pcf.codes import PCFReason
from mqflow.mqi.reason_codes import Reason

__all__ = (
    "AboutChannel",
    "AboutCluster",
    "AboutService",
    "Asked",
    "ChannelVerb",
    "ClusterVerb",
    "RefreshQueueManager",
    "answer",
)

ChannelVerb = Literal["PING CHANNEL", "PURGE CHANNEL", "RESET CHANNEL", "RESOLVE CHANNEL"]
ClusterVerb = Literal["REFRESH CLUSTER", "RESET CLUSTER", "RESUME QMGR", "SUSPEND QMGR"]

_SENDING: Final = frozenset({ChannelType.SENDER, ChannelType.SERVER, ChannelType.CLUSSDR})
_TAKEN: Final[Mapping[ChannelVerb, frozenset[ChannelType]]] = {
    "PING CHANNEL": _SENDING,
    "RESOLVE CHANNEL": _SENDING,
    "RESET CHANNEL": frozenset(ChannelType) - {ChannelType.CLNTCONN, ChannelType.SVRCONN},
    # Source: PURGE CHANNEL is for the channels of MQTT and AMQP, which the embedded queue manager does not have.
    "PURGE CHANNEL": frozenset(),
}
_FIRST: Final = 1


class AboutChannel(Struct, frozen=True):
    """PING, PURGE, RESET or RESOLVE CHANNEL."""

    verb: ChannelVerb
    name: str
    #: The sequence number of the channel's next message; only RESET CHANNEL sets it.
    sequence_number: int = _FIRST


class AboutService(Struct, frozen=True):
    """START SERVICE or STOP SERVICE."""

    verb: Literal["START SERVICE", "STOP SERVICE"]
    name: str


class AboutCluster(Struct, frozen=True):
    """REFRESH CLUSTER, RESET CLUSTER, RESUME QMGR or SUSPEND QMGR."""

    verb: ClusterVerb
    #: The name of the cluster, or of a namelist of clusters; an asterisk for every cluster.
    name: str


class RefreshQueueManager(Struct, frozen=True):
    """REFRESH QMGR."""

    #: CONFIGEV or PROXYSUB.
    what: str


Asked = AboutChannel | AboutService | AboutCluster | RefreshQueueManager


def answer(asked: Asked, administration: Administration) -> str:
    """Return the message of a command that has nothing to change. Raises `MQIError` if the command is refused."""
    queue_manager = administration.queue_manager
    match asked:
        case AboutChannel():
            return _about_channel(asked, administration)
        case AboutService(verb, name):
            if not any(each.name == name for each in administration.objects.all("SERVICE")):
                raise error_for(Reason.UNKNOWN_OBJECT_NAME, verb, name, queue_manager.name)
            if verb == "STOP SERVICE":
                raise error_for(PCFReason.SERVICE_STOPPED, verb, name, queue_manager.name, "No service runs here")
            raise error_for(Reason.FUNCTION_NOT_SUPPORTED, verb, name, queue_manager.name, "Services are only defined here")
        case AboutCluster("REFRESH CLUSTER", "*"):
            return f"Queue manager {queue_manager.name} is in no cluster, so it has nothing to refresh."
        case AboutCluster(verb, name):
            detail = f"Queue manager {queue_manager.name} is in no cluster"
            raise error_for(PCFReason.ATTR_VALUE_ERROR, verb, name, queue_manager.name, detail)
        case RefreshQueueManager("PROXYSUB"):
            return f"Queue manager {queue_manager.name} has no proxy subscriptions, so it has nothing to refresh."
        case RefreshQueueManager(what):
            if queue_manager.configuration_event:
                reason, detail = int(Reason.FUNCTION_NOT_SUPPORTED), "There are no configuration events here"
            else:
                reason, detail = PCFReason.EVENTS_DISABLED, "CONFIGEV of the queue manager is DISABLED"
            raise error_for(reason, "REFRESH QMGR", what, queue_manager.name, detail)
        case unknown:
            assert_never(unknown)


def _about_channel(asked: AboutChannel, administration: Administration) -> str:
    def refused(reason: int, detail: str) -> MQIError:
        return error_for(reason, asked.verb, asked.name, administration.queue_manager.name, detail)

    found = {each.kind for each in administration.objects.all("CHANNEL") if each.name == asked.name}
    if not found:
        raise refused(PCFReason.CHANNEL_NOT_FOUND, "There is no such channel")
    if not found & _TAKEN[asked.verb]:
        taken = ", ".join(sorted(kind.name for kind in _TAKEN[asked.verb])) or "MQTT and AMQP"
        raise refused(PCFReason.WRONG_CHANNEL_TYPE, f"{asked.verb} is for channels of the types {taken}")
    if asked.verb == "RESOLVE CHANNEL":
        return f"Channel {asked.name} is resolved: no unit of work of the channel is in doubt."
    if asked.verb == "RESET CHANNEL" and asked.sequence_number == _FIRST:
        return f"AMQ8023: Channel {asked.name} is reset: the number of its next message is 1."
    if asked.verb == "RESET CHANNEL":
        raise refused(Reason.FUNCTION_NOT_SUPPORTED, "No message goes through a channel here, so its next message has number 1")
    raise refused(Reason.FUNCTION_NOT_SUPPORTED, "No message goes through a channel here, so no other queue manager is called")
