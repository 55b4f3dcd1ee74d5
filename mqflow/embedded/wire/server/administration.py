"""Carries out the administration of a served queue manager: each request calls its `Administration`.

This file knows `requests_admin`, but no connection and no verb.
"""

from typing import assert_never

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.wire.protocol import requests, requests_admin
from mqflow.embedded.wire.protocol.admin_authorities import ask_authorities, order_authorities
from mqflow.embedded.wire.protocol.admin_objects import ObjectQuestion, ask_objects, order_objects
from mqflow.embedded.wire.protocol.admin_topics import ask_topics, order_topics

__all__ = ("administered",)


def administered(administration: Administration, request: requests.AdministrationRequest) -> object:
    """Carry out the request, and return the answer to a question, or None for an order."""
    if isinstance(request, requests_admin.AdministrationQuestion):
        return _ask_administration(administration, request)
    if isinstance(request, requests_admin.AuthorityQuestion):
        return ask_authorities(administration.authorities, request)
    if isinstance(request, requests_admin.TopicQuestion):
        return ask_topics(administration.publishing, request)
    if isinstance(request, ObjectQuestion):
        return ask_objects(administration.objects, request)
    if isinstance(request, requests_admin.AdministrationOrder):
        _order_administration(administration, request)
    elif isinstance(request, requests_admin.AuthorityOrder):
        order_authorities(administration.authorities, request)
    elif isinstance(request, requests_admin.TopicOrder):
        order_topics(administration.publishing, request)
    else:
        order_objects(administration.objects, request)
    return None


def _ask_administration(administration: Administration, request: requests_admin.AdministrationQuestion) -> object:
    match request:
        case requests_admin.ReadQueueManager():
            return administration.queue_manager
        case requests_admin.ReadQueues():
            return administration.queues()
        case requests_admin.ReadQueue(name):
            return administration.queue(name)
        case requests_admin.ReadQueueStatus(name):
            return administration.queue_status(name)
        case _:
            assert_never(request)


def _order_administration(administration: Administration, request: requests_admin.AdministrationOrder) -> None:
    match request:
        case requests_admin.Define(attributes, replace):
            administration.define(attributes, replace=replace)
        case requests_admin.Alter(name, changes, force):
            administration.alter(name, changes, force=force)
        case requests_admin.Delete(name, purge, keep_authorities):
            administration.delete(name, purge=purge, keep_authorities=keep_authorities)
        case requests_admin.Clear(name):
            administration.clear(name)
        case requests_admin.AlterQueueManager(changes):
            administration.alter_queue_manager(changes)
        case _:
            assert_never(request)
