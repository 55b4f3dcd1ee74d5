"""A handler function: its parameters, the decoder for its payload, and the way to call it. Reads the signature only once.

This file knows annotations, but no queue and no session.
"""

import inspect
import math
import sys
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Never, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

import anyio.to_thread
from anyio.lowlevel import RunVar
from msgspec import Struct

from mqflow.app.errors import ConfigurationError
from mqflow.app.handlers.codecs import Codec, Decode, decoder_for
from mqflow.app.handlers.context import Context
from mqflow.app.handlers.message import Message
from mqflow.app.handlers.mistakes import check_payload_type
from mqflow.app.handlers.parameter_marks import FromMessage, arguments_from, from_message
from mqflow.app.handlers.unawaited_puts import begin
from mqflow.policy.poison.disposition import OUTCOMES, Outcome
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.listener.thread_delivery import on_the_loop

if TYPE_CHECKING:
    from fast_depends.core import CallModel

__all__ = ("Handler", "Place", "Where")

Where = Callable[[Message], bool]

_PAYLOAD, _MESSAGE, _CONTEXT = range(3)


class Place(Struct, frozen=True):
    """The place where an application has included the router of a handler."""

    #: The router; None if the application itself has declared the handler.
    router: object = None
    #: The text before the names of the router's queues.
    prefix: str = ""
    #: The codec for publishers of the router that have no codec of their own.
    codec: Codec | None = None
    #: Returns the running application. Each application has its own function, so this field also tells applications apart.
    running: object = None


_OF_APPLICATION: Final = Place()


class Handler:
    """A function that handles the messages of a queue. If it has `where`, it handles only messages that `where` accepts."""

    def __init__(
        self, function: Callable[..., Any], *, where: Where | None, codec: Codec | None, place: Place = _OF_APPLICATION
    ) -> None:
        if not callable(function) or isinstance(function, type):
            raise ConfigurationError(f"{function!r} cannot be a handler. A handler is a function, or an object with __call__.")
        self.function: Final = function
        self.declared_in: Final = place
        named = _named(function)
        self.name: Final = f"{named.__module__}.{named.__qualname__}"
        #: The last part of the function's name.
        self.short_name: Final[str] = named.__name__
        if where is not None and not callable(where):
            raise ConfigurationError(f"{self.name}: where={where!r} is not a function of the Message. A text is a `selector`.")
        if where is not None and any(map(inspect.iscoroutinefunction, _bodies_of(where))):
            raise ConfigurationError(
                f"{self.name}: `where` is async, but is called as a plain function: its result would always be true."
            )
        self.where: Final = where
        self.is_async: Final = any(map(inspect.iscoroutinefunction, _bodies_of(function)))
        wanted = _wanted(function, self.name)
        payload_type = wanted.payload_type
        #: True if a call takes a whole unit of work: its payload is annotated `list[T]`, or it takes only `list[Message]`.
        self.takes_batch: Final = get_origin(payload_type) is list or (payload_type is _Nothing and wanted.message_list is True)
        if wanted.message_list not in {None, self.takes_batch}:
            problem = "a handler of list[T] takes list[Message], and a handler of one message takes Message"
            raise ConfigurationError(f"{self.name}: payload and message do not go together: {problem}.")
        if wanted.from_message and self.takes_batch:
            problem = "Header and Property belong to one message, and this handler takes a list. Take list[Message]"
            raise ConfigurationError(f"{self.name}: {problem}.")
        #: The return annotation as text, if it says that the handler returns a payload; otherwise empty.
        self.result_type: Final = _shown(wanted.result_hint) if _is_payload(wanted.result_hint) else ""
        #: The type of this payload, without None and outcomes; None if the handler returns no payload.
        self.result: Final = _payload_of(wanted.result_hint)
        element = get_args(payload_type)[0] if get_origin(payload_type) is list else payload_type
        #: The type of one message's payload; None if the handler takes no payload.
        self.payload_type: Final = None if element is _Nothing else element
        self.codec: Final = codec
        if codec is None and element is not _Nothing:
            check_payload_type(element, self.name)
        self.decode: Final[Decode | None] = None if element is _Nothing else decoder_for(element, codec)
        self.wants_context: Final = _CONTEXT in wanted.positions.values()
        self._positions: Final = tuple(wanted.positions.items())
        #: The name of the payload's parameter, if it is the only parameter; otherwise empty.
        is_only = [*wanted.positions.values()] == [_PAYLOAD] and not wanted.from_message
        self._only_payload: Final = next(iter(wanted.positions)) if is_only else ""
        #: The parameters that receive a header field or a property.
        self.from_message: Final = tuple(wanted.from_message)
        given = (*wanted.positions, *(each.parameter for each in wanted.from_message))
        self._call: Final = _injected(function, self.name, given) if wanted.injects else function
        #: One limiter for each run, because a limiter belongs to an event loop, and tests run an application on several loops.
        self._limiter: Final = RunVar[anyio.CapacityLimiter](f"threads of {self.name}")

    @property
    def place(self) -> str:
        """The file and the line of the function; empty if its source is not known."""
        code = getattr(_bodies_of(self.function)[-1], "__code__", None)  # a function that is written in C has no code
        return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else ""

    def __call__(
        self, payload: Any, message: Message | Sequence[Message], context: Context | None, delivery: Delivery
    ) -> Awaitable[Any]:
        """Call the function, and return its result when awaited. A further coroutine would take time for each message."""
        if self._only_payload:
            arguments = {self._only_payload: payload}
        else:
            values = (payload, message, context)
            arguments = {name: values[position] for name, position in self._positions}
            if self.from_message and isinstance(message, Message):
                arguments |= arguments_from(self.from_message, message)
        if self.is_async:
            coroutine: Awaitable[Any] = self._call(**arguments)
            delivery.running = coroutine
            return coroutine
        return self._call_plain(arguments, delivery)

    async def _call_plain(self, arguments: dict[str, Any], delivery: Delivery) -> Any:
        """Call a plain function, in a thread of the handler's own pool, and return its result.

        If the function returns an awaitable, this method awaits it: a decorator can hide that its function is async.
        """
        if delivery.on_thread:
            delivery.running = threading.get_ident()
            result = self._call(**arguments)
            if not inspect.isawaitable(result):
                return result
            await on_the_loop()
            begin(delivery)
            delivery.running = result
            return await result
        limiter = self._limiter.get(None)
        if limiter is None:
            # The number of workers limits the threads. A limit here could delay the next message behind an abandoned thread.
            limiter = anyio.CapacityLimiter(math.inf)
            self._limiter.set(limiter)
        work = partial(_in_thread, delivery, self._call, arguments)
        (result,) = await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)
        if not inspect.isawaitable(result):
            return result
        delivery.running = result
        return await result


class _Nothing:
    """The payload type of a handler that takes no payload."""


class _Wanted:
    def __init__(self) -> None:
        self.positions: dict[str, int] = {}
        self.payload_type: Any = _Nothing
        #: True if the parameter for the message is a list; None if there is no such parameter.
        self.message_list: bool | None = None
        self.result_hint: Any = None
        self.injects = False
        self.from_message: list[FromMessage] = []


def _wanted(function: Callable[..., Any], name: str) -> _Wanted:
    """Return the kind of each parameter. Raises `ConfigurationError` for a function that cannot be a handler."""
    annotated = _bodies_of(function)[-1]
    if any(inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body) for body in _bodies_of(function)):
        raise ConfigurationError(f"{name} is a generator, so its body would never run. A handler returns; it does not yield.")
    try:
        hints = get_type_hints(annotated, include_extras=True)
    except NameError as error:
        raise ConfigurationError(f"{name}: an annotation cannot be read: {error}. Import what it names.") from error
    wanted = _Wanted()
    wanted.result_hint = hints.get("return")
    unfilled = ""
    parameters = inspect.signature(function).parameters
    for parameter in parameters.values():
        hint = hints.get(parameter.name, inspect.Parameter.empty)
        if _is_marked(wanted, parameter, hint, name):
            continue
        hint = _bare(hint)
        if hint is Message or hint == list[Message] or hint == Sequence[Message]:
            wanted.positions[parameter.name] = _MESSAGE
            wanted.message_list = hint is not Message
        elif hint is Context:
            wanted.positions[parameter.name] = _CONTEXT
        elif parameter.default is inspect.Parameter.empty:
            _take_payload(wanted, parameter, hint, name)
        elif hint is not inspect.Parameter.empty:
            unfilled = parameter.name
    filled = (*wanted.positions, *(each.parameter for each in wanted.from_message))
    _check_are_plain([parameters[each] for each in filled], name)
    if unfilled and not wanted.positions and not isinstance(function, partial):
        raise ConfigurationError(
            f"{name}: parameter {unfilled!r} would keep its default, and no message would reach the handler. "
            "Remove the default."
        )
    return wanted


def _is_marked(wanted: _Wanted, parameter: inspect.Parameter, hint: Any, name: str) -> bool:
    """If the parameter is marked `Header`, `Property` or `Depends`, record this. Return whether it is marked."""
    part = from_message(parameter, hint, name)
    if part is not None:
        wanted.from_message.append(part)
        return True
    injected = _is_injected(parameter, hint)
    wanted.injects = wanted.injects or injected
    return injected


def _is_payload(hint: Any) -> bool:
    """Return whether a handler with this return annotation returns a payload to put; false if the annotation does not say."""
    if get_origin(hint) in {Union, UnionType}:
        return any(map(_is_payload, get_args(hint)))
    return hint not in {None, NoneType, Any, NoReturn, Never, Outcome, *OUTCOMES} and not isinstance(hint, TypeVar)


def _payload_of(hint: Any) -> Any:
    """Return the part of a return annotation that is the type of a payload; None if no part is."""
    if get_origin(hint) in {Union, UnionType}:
        return Union[tuple(filter(_is_payload, get_args(hint)))] if _is_payload(hint) else None  # noqa: UP007 - the parts are found at run time
    return hint if _is_payload(hint) else None


def _shown(hint: Any) -> str:
    return hint.__qualname__ if isinstance(hint, type) and not get_args(hint) else str(hint)


def _bodies_of(function: Callable[..., Any]) -> Sequence[Callable[..., Any]]:
    """Return the callable without a `partial` around it. For an object with `__call__`, return the object and this method."""
    while isinstance(function, partial):
        function = function.func
    return (function,) if inspect.isroutine(function) or isinstance(function, type) else (function, type(function).__call__)


def _named(function: Callable[..., Any]) -> Any:  # `Any`: functions and classes have no common type that has a name
    """Return the function; for a callable object, return its class. Both have a name."""
    function = _bodies_of(function)[0]
    return function if hasattr(function, "__qualname__") else type(function)  # an object with `__call__` need not have a name


def _bare(hint: Any) -> Any:
    """Return `Message` or `Context` without the metadata of `Annotated`; return any other annotation unchanged."""
    inner = get_args(hint)[0] if get_origin(hint) is Annotated else None
    return inner if inner is Message or inner is Context else hint


def _check_are_plain(parameters: Sequence[inspect.Parameter], name: str) -> None:
    """Raise `ConfigurationError` if a parameter cannot be given by its name."""
    for parameter in parameters:
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY}:
            raise ConfigurationError(f"{name}: {parameter} cannot be filled: a handler's parameters are plain names.")


def _take_payload(wanted: _Wanted, parameter: inspect.Parameter, hint: Any, name: str) -> None:
    _check_are_plain([parameter], name)
    if hint is inspect.Parameter.empty and parameter.name == "self":
        raise ConfigurationError(
            f"{name} is a method of a class. Declare the method of an object: app.listener(...)(shop.book)."
        )
    if hint is inspect.Parameter.empty:
        raise ConfigurationError(
            f"{name}: parameter {parameter.name!r} has no annotation. Annotate the payload (bytes, str, dict, a Struct, a "
            "dataclass, list[...] for batches), Message, Context, or Annotated[...] with Depends, Header or Property."
        )
    if _PAYLOAD in wanted.positions.values():
        other = next(key for key, position in wanted.positions.items() if position == _PAYLOAD)
        raise ConfigurationError(
            f"{name}: both {other!r} and {parameter.name!r} would be the payload; a handler takes one payload."
        )
    wanted.positions[parameter.name] = _PAYLOAD
    wanted.payload_type = hint


def _is_injected(parameter: inspect.Parameter, hint: Any) -> bool:
    """Return whether the parameter is a `Depends`; false if no module has imported the library of `Depends`."""
    model = sys.modules.get("fast_depends.dependencies.model")
    if model is None:
        return False
    extras = hint.__metadata__ if get_origin(hint) is Annotated else ()
    return isinstance(parameter.default, model.Dependant) or any(isinstance(extra, model.Dependant) for extra in extras)


def _injected(function: Callable[..., Any], name: str, given: Collection[str]) -> Callable[..., Any]:
    """Return the function, called with its dependencies. `given` has the names of the arguments that it gets itself."""
    from fast_depends import inject  # noqa: PLC0415 - only a handler that uses Depends loads it

    def checked(model: "CallModel") -> "CallModel":
        _check_dependencies(model, name, given)
        return model

    try:
        return inject(function, cast=False, serializer_cls=None, wrap_model=checked)
    except (AssertionError, TypeError, ValueError) as error:
        cure = "Depends takes a function, not its result, and an async dependency needs a handler with `async def`"
        raise ConfigurationError(f"{name}: Depends cannot be used: {str(error).rstrip('.')}. {cure}.") from error


def _check_dependencies(model: "CallModel", name: str, known: Collection[str]) -> None:
    """Raise `ConfigurationError` if a dependency takes an argument whose name is not `known` when it is called."""
    for result, key in model.dependencies.items():  # in the order of the calls
        dependency = model.dependency_provider.get_dependant(key)
        for parameter in (each.field_name for each in dependency.params if each.default_value is ...):
            if parameter not in known:
                problem = "a dependency gets its arguments from the parameters of the handler with the same names"
                raise ConfigurationError(f"{name}: a dependency takes {parameter!r}, and {problem}. Add {parameter!r} to them.")
        _check_dependencies(dependency, name, known)
        known = (*known, result)  # the dependencies after it can take its result


def _in_thread(delivery: Delivery, function: Callable[..., Any], arguments: dict[str, Any]) -> tuple[Any]:
    delivery.running = threading.get_ident()
    return (function(**arguments),)  # on trio, a thread cannot return a coroutine, but it can return a tuple
