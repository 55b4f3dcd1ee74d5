"""Carries out an application's requests on its connection. Requests name handles by number.

`client_connection` carries out the gets, because they can wait. This module knows `requests`, but no frame and no rule of MQ.
"""

from typing import Final, assert_never

from msgspec import Struct

from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.server.contract import ServableConnection
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import CloseOption, OpenOption, PutOption, SubscriptionRequestOption
from mqflow.mqi.reason_codes import CompletionCode
from mqflow.verbs import ObjectHandle, SubscriptionHandle

__all__ = ("VerbCalls",)


class _NoHandle(Struct, frozen=True):
    """The handle for a number that no handle has. The queue manager refuses it, because it belongs to no connection."""

    name: str = ""
    options: OpenOption = OpenOption(0)
    resolved_queue: str = ""
    resolved_queue_manager: str = ""


_NO_HANDLE: Final = _NoHandle()


class VerbCalls:
    """Calls the verbs of one connection, and keeps the handles of the connection by number."""

    def __init__(self, connection: ServableConnection) -> None:
        self.connection: Final = connection
        self._objects: dict[int, ObjectHandle] = {}
        self._subscriptions: dict[int, SubscriptionHandle] = {}
        self._handles_made = 0

    def perform(self, request: requests.VerbQuestion | requests.VerbOrder) -> object:
        """Call the verb, and return the value of the reply. Raises the `MQIError` of the verb."""
        if isinstance(request, requests.VerbQuestion):
            return self._ask(request)
        self._order(request)
        return None

    def has(self, number: int) -> bool:
        """Return whether an open object has this number."""
        return number in self._objects

    def handle(self, number: int) -> ObjectHandle:
        """Return the handle with this number. For an unknown number, return a handle that is refused with 2019."""
        return self._objects.get(number, _NO_HANDLE)

    def _given(self, number: int | None) -> ObjectHandle | None:
        return None if number is None else self.handle(number)

    def _ask(self, request: requests.VerbQuestion) -> object:  # noqa: PLR0911 - one return for each verb
        match request:
            case requests.Open():
                return self._opened(self.connection.open(request.target, OpenOption(request.options)))
            case requests.Put():
                handle, context = self.handle(request.handle), self._given(request.context)
                return self.connection.put(
                    handle, request.descriptor, request.body, PutOption(request.options), context=context
                )
            case requests.PutMany():
                return self._put_many(request)
            case requests.Put1():
                target, context = request.target, self._given(request.context)
                return self.connection.put1(
                    target, request.descriptor, request.body, PutOption(request.options), context=context
                )
            case requests.Subscribe():
                return self._subscribe(request)
            case requests.RequestPublications(number, options):
                return self.connection.request_publications(
                    self._subscriptions.get(number, _NO_HANDLE), SubscriptionRequestOption(options)
                )
            case requests.Inquire():
                return self.connection.inquire(self.handle(request.handle), request.selectors)
            case _:
                assert_never(request)

    def _close(self, request: requests.Close) -> None:
        handle = self._subscriptions.get(request.handle) or self.handle(request.handle)
        try:
            self.connection.close(handle, CloseOption(request.options))
        except MQIError as error:
            if error.completion is CompletionCode.WARNING:  # the object is closed in spite of the warning
                self._forget(request.handle)
            raise
        self._forget(request.handle)

    def _forget(self, number: int) -> None:
        self._objects.pop(number, None)
        self._subscriptions.pop(number, None)

    def _order(self, request: requests.VerbOrder) -> None:
        match request:
            case requests.Close():
                self._close(request)
            case requests.BrowseBack(number, count):
                self.connection.browse_back(self.handle(number), count)
            case requests.GiveBack(count):
                self.connection.give_back(count)
            case requests.Set():
                self.connection.set(self.handle(request.handle), request.values)
            case requests.Commit():
                self.connection.commit()
            case requests.Backout():
                self.connection.backout()
            case requests.Disconnect():
                self.connection.disconnect()
            case _:
                assert_never(request)

    def _subscribe(self, request: requests.Subscribe) -> requests.Subscribed:
        given = self._given(request.queue)
        subscribed = self.connection.subscribe(request.descriptor, given)
        if request.queue is not None and subscribed.queue is given:
            queue = _sent(request.queue, subscribed.queue)
        else:
            queue = self._opened(subscribed.queue)
        number = self._next_number()
        self._subscriptions[number] = subscribed.handle
        return requests.Subscribed(number, subscribed.handle.name, queue, subscribed.descriptor, subscribed.reason)

    def _opened(self, handle: ObjectHandle) -> requests.Opened:
        number = self._next_number()
        self._objects[number] = handle
        return _sent(number, handle)

    def _next_number(self) -> int:
        self._handles_made += 1
        return self._handles_made

    def _put_many(self, request: requests.PutMany) -> requests.PutManyAnswer:
        handle, context = self.handle(request.handle), self._given(request.context)
        messages = [(descriptor, body) for descriptor, bodies in request.runs for body in bodies]
        put = self.connection.put_many(handle, messages, PutOption(request.options), context=context)
        return requests.PutManyAnswer(tuple(put.puts), None if put.error is None else requests.failure_of(put.error))


def _sent(number: int, handle: ObjectHandle) -> requests.Opened:
    return requests.Opened(number, handle.name, handle.options, handle.resolved_queue, handle.resolved_queue_manager)
