"""What a served queue manager is asked about its definitions, and told to change: each request to its `Administration`.

Knows the records of `calls`; knows no connection and no verb.
"""

from typing import assert_never

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.wire.protocol import administration_calls, requests
from mqflow.embedded.wire.protocol.admin_authorities import ask_authorities, order_authorities
from mqflow.embedded.wire.protocol.admin_objects import ObjectQuestion, ask_objects, order_objects
from mqflow.embedded.wire.protocol.admin_topics import ask_topics, order_topics
from mqflow.embedded.wire.protocol.topic_calls import TopicOrder, TopicQuestion

__all__ = ("administered",)


def administered(administration: Administration, request: requests.AdministrationRequest) -> object:
    """Return the answer to a question, or None when an order is obeyed."""
    if isinstance(request, administration_calls.AdministrationQuestion):
        return _ask_administration(administration, request)
    if isinstance(request, administration_calls.AuthorityQuestion):
        return ask_authorities(administration.authorities, request)
    if isinstance(request, TopicQuestion):
        return ask_topics(administration.publishing, request)
    if isinstance(request, ObjectQuestion):
        return ask_objects(administration.objects, request)
    if isinstance(request, administration_calls.AdministrationOrder):
        _order_administration(administration, request)
    elif isinstance(request, administration_calls.AuthorityOrder):
        order_authorities(administration.authorities, request)
    elif isinstance(request, TopicOrder):
        order_topics(administration.publishing, request)
    else:
        order_objects(administration.objects, request)
    return None


def _ask_administration(administration: Administration, request: administration_calls.AdministrationQuestion) -> object:
    match request:
        case administration_calls.ReadQueueManager():
            return administration.queue_manager
        case administration_calls.ReadQueues():
            return administration.queues()
        case administration_calls.ReadQueue(name):
            return administration.queue(name)
        case administration_calls.ReadQueueStatus(name):
            return administration.queue_status(name)
        case _:
            assert_never(request)


def _order_administration(administration: Administration, request: administration_calls.AdministrationOrder) -> None:
    match request:
        case administration_calls.Define(attributes, replace):
            administration.define(attributes, replace=replace)
        case administration_calls.Alter(name, changes, force):
            administration.alter(name, changes, force=force)
        case administration_calls.Delete(name, purge, keep_authorities):
            administration.delete(name, purge=purge, keep_authorities=keep_authorities)
        case administration_calls.Clear(name):
            administration.clear(name)
        case administration_calls.AlterQueueManager(changes):
            administration.alter_queue_manager(changes)
        case _:
            assert_never(request)
