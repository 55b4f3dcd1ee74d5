"""MQSUB and MQSUBRQ on a caller's structures. Source: IBM, MQSUB, MQSUBRQ, MQSD and MQSRO; rc2535."""

from typing import Final

from mqflow.mqi.c_structures import MQSD, MQSRO
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import SubscribeOption, SubscriptionRequestOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.standin.host import Host
from mqflow.standin.memory.structures import Structure, number_at, structure_at, write_number

__all__ = ("request_publications", "subscribe", "topic_text")

_UTF_8: Final = 1208
_ACTION_PUBLICATION: Final = 1


def subscribe(host: Host, number: int, sd_at: int, hobj_at: int, hsub_at: int) -> int:
    """MQSUB: write both handles, and fill in the MQSD with the real subscription."""
    hconn = host.hconn(number, "MQSUB")
    sd = structure_at(MQSD, sd_at, "MQSUB")
    hobj = number_at(hobj_at) if hobj_at else 0
    with hconn.used("MQSUB"):
        subscribed = hconn.connection.subscribe(_asked(sd), hconn.objects.get(hobj))
        if subscribed.queue is not hconn.objects.get(hobj):
            hobj = hconn.next_number()
            hconn.objects[hobj] = subscribed.queue
        hsub = hconn.next_number()
        hconn.subscriptions[hsub] = subscribed.handle
    _answer(sd, subscribed.descriptor)
    write_number(hobj_at, hobj)
    write_number(hsub_at, hsub)
    return subscribed.reason


def request_publications(host: Host, number: int, hsub: int, action: int, sro_at: int) -> int:
    """MQSUBRQ: ask for the retained publications again, and write their number into the MQSRO."""
    hconn = host.hconn(number, "MQSUBRQ")
    sro = structure_at(MQSRO, sro_at, "MQSUBRQ")
    if action != _ACTION_PUBLICATION:
        raise error_for(Reason.ACTION_ERROR, "MQSUBRQ", detail=f"Action {action}; 1 (MQSR_ACTION_PUBLICATION) is the only one")
    with hconn.used("MQSUBRQ"):
        handle = hconn.subscription_of(hsub, "MQSUBRQ")
        options = SubscriptionRequestOption(sro.number("Options"))
        sro.set(NumPubs=hconn.connection.request_publications(handle, options))
    return Reason.NONE


def topic_text(structure: Structure, name: str) -> str:
    """Return a variable-length string as text."""
    return structure.string(name).decode("utf-8", "replace").rstrip(" \0")


def _asked(sd: Structure) -> SubscriptionDescriptor:
    return SubscriptionDescriptor(
        options=SubscribeOption(sd.number("Options")),
        object_name=sd.text("ObjectName"),
        object_string=topic_text(sd, "ObjectString"),
        name=topic_text(sd, "SubName"),
        user_data=topic_text(sd, "SubUserData"),
        correlation_id=sd.raw("SubCorrelId"),
        expiry_tenths=sd.number("SubExpiry"),
        selection=topic_text(sd, "SelectionString"),
        priority=sd.number("PubPriority"),
        accounting_token=sd.raw("PubAccountingToken"),
        application_identity_data=sd.text("PubApplIdentityData"),
        level=sd.number("SubLevel"),
        alternate_user=sd.text("AlternateUserId"),
    )


def _answer(sd: Structure, said: SubscriptionDescriptor) -> None:
    """Fill in the MQSD. Truncates a string that is longer than its buffer; the length field has the full length."""
    sd.set(
        Options=int(said.options),
        SubExpiry=said.expiry_tenths,
        SubCorrelId=said.correlation_id,
        PubPriority=said.priority,
        PubAccountingToken=said.accounting_token,
        PubApplIdentityData=said.application_identity_data,
        SubLevel=said.level,
    )
    strings = {"SubUserData": said.user_data, "SelectionString": said.selection, "ResObjectString": said.topic_string}
    for name, text in strings.items():
        sd.set_string(name, text.encode(), _UTF_8)
