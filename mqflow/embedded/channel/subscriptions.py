"""The subscriptions of a client program: MQSUB and MQSUBRQ as requests of the wire.

This module knows no flow.
"""

from typing import Final

from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.server.verb_calls import VerbCalls
from mqflow.fap import calls
from mqflow.fap.fields import FlowError
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import SubscribeOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor

__all__ = ("request_publications", "subscribe")

# MQSR_ACTION_PUBLICATION.
_PUBLICATION: Final = 1


def subscribe(verbs: VerbCalls, wanted: SubscriptionDescriptor, queue: int) -> requests.Subscribed:
    """Create, resume or alter a subscription (MQSUB). `queue` is a handle, which a managed subscription ignores."""
    given = None if wanted.options & SubscribeOption.MANAGED else queue
    made = verbs.perform(requests.Subscribe(wanted, given))
    if not isinstance(made, requests.Subscribed):
        raise FlowError("a subscribe has an answer")
    return made


def request_publications(verbs: VerbCalls, subscription: int, asked: calls.SubscriptionRequestCall) -> int:
    """Request the retained publications, and return their number. Raises `MQIError` 2535 if `asked` has another action."""
    if asked.action != _PUBLICATION:
        detail = f"Action {asked.action}; 1 (MQSR_ACTION_PUBLICATION) is known"
        raise error_for(Reason.ACTION_ERROR, "MQSUBRQ", detail=detail)
    count = verbs.perform(requests.RequestPublications(subscription, asked.options))
    if not isinstance(count, int):
        raise FlowError("a request for publications has an answer")
    return count
