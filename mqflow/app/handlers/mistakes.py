"""Finds the usual mistakes in declarations and puts before anything runs. Each error names the mistake and its remedy.

The functions accept values of any type, because a user can pass anything.
"""

import inspect
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import msgspec

from mqflow.app.errors import ConfigurationError
from mqflow.policy.did_you_mean import closest
from mqflow.policy.poison.disposition import OUTCOMES

__all__ = (
    "check_codec",
    "check_decide",
    "check_floats",
    "check_hooks",
    "check_keywords",
    "check_layers",
    "check_lifespan",
    "check_number",
    "check_payload_type",
    "check_result",
    "check_selector",
    "check_sequence",
    "check_startup",
    "check_switch",
    "check_target",
    "check_text",
    "entered",
)

_LIFESPAN: Final = "Write @asynccontextmanager (of contextlib) above an `async def` with one parameter, the App, and a `yield`"
_CODEC: Final = ("decode", "encode")
_JSON: Final = (dict, list, str, int, float, bool, type(None))
_LAYER: Final = ("consume", "decided", "publish")
_NAN_OR_INF: Final = (b"\xcb\x7f", b"\xcb\xff")
"""The bytes of MessagePack with which nan, inf and the largest numbers begin. No text has them, because they are not UTF-8."""


def check_target(call: str, queue: object, topic: object, *, of_topics: str) -> None:
    """Raise `ConfigurationError` if the call has neither a queue nor a topic, or has both.

    `of_topics` names the options of the call that only a topic can have; empty if the call has no such option.
    """
    if inspect.isroutine(queue) or isinstance(queue, type):
        name = getattr(queue, "__name__", "the handler")  # a callable object need not have a name
        raise ConfigurationError(f"@app.{call} above {name} has no queue: write @app.{call}('ORDERS.IN'), with your queue.")
    for what, given in (("queue", queue), ("topic", topic)):
        if not isinstance(given, str):
            raise ConfigurationError(f"{call}({what}={given!r}): the name of a {what} is a text.")
    if not queue and not topic:
        raise ConfigurationError(f"{call}() has neither a queue nor a topic: {call}('ORDERS.IN'), or {call}(topic='prices/#').")
    if queue and topic:
        raise ConfigurationError(f"{call}({queue!r}, topic={topic!r}) has a queue and a topic. Leave out one of them.")
    if queue and of_topics:
        raise ConfigurationError(f"{call}({queue!r}, {of_topics}=...): {of_topics} belongs to a topic, and this is a queue.")


def check_number(call: str, name: str, given: object, unit: str) -> None:
    """Raise `TypeError` if the value of the argument `name` is not a number."""
    if not isinstance(given, int | float):
        raise TypeError(f"{call}({name}={given!r}): it takes a number of {unit}.")


def check_text(call: str, name: str, given: object) -> None:
    """Raise `ConfigurationError` if the value of the argument `name` is not a text."""
    if not isinstance(given, str):
        raise ConfigurationError(f"{call}({name}={given!r}): it takes a text.")


def check_switch(call: str, name: str, given: object) -> None:
    """Raise `ConfigurationError` if the value of the argument `name` is not True or False: the text "no" would mean True."""
    if not isinstance(given, bool):
        raise ConfigurationError(f"{call}({name}={given!r}): it takes True or False.")


def check_decide(decide: object) -> None:
    """Raise `ConfigurationError` if the object is not a plain function, because mqflow does not await the backout decision."""
    if not callable(decide):
        raise ConfigurationError(f"App(decide={decide!r}): it takes a function. Leave it out for the rules of JMS.")
    if _is_async(decide):
        raise ConfigurationError("App(decide=...) is async, but is called as a plain function. Read what it needs beforehand.")


def check_selector(call: str, selector: object) -> None:
    """Raise `ConfigurationError` if the selector is not a text."""
    if not isinstance(selector, str):
        problem = "a selector is a text, \"colour = 'red'\". A listener takes a function as `where`"
        raise ConfigurationError(f"{call}(selector={selector!r}): {problem}.")


def check_lifespan(lifespan: object) -> None:
    """Raise `ConfigurationError` if the object is not a function that returns an async context manager for the application."""
    if hasattr(lifespan, "__aenter__"):  # `hasattr`, because a user can pass any object
        raise ConfigurationError("lifespan is called already. Give the function itself: App(lifespan=life), without ().")
    if not callable(lifespan):
        raise ConfigurationError(f"lifespan={lifespan!r} is not a function. {_LIFESPAN}.")
    name = getattr(lifespan, "__name__", type(lifespan).__qualname__)  # a callable object need not have a name
    if inspect.isasyncgenfunction(lifespan) or inspect.isgeneratorfunction(lifespan) or inspect.iscoroutinefunction(lifespan):
        raise ConfigurationError(f"lifespan={name} returns no async context manager. {_LIFESPAN}.")
    wrapped = inspect.unwrap(lifespan)
    if wrapped is not lifespan and inspect.isgeneratorfunction(wrapped):
        raise ConfigurationError(f"lifespan={name} is a context manager that is not async. {_LIFESPAN}.")
    if not _takes(lifespan, 1):
        raise ConfigurationError(f"lifespan={name} does not take one argument, the App. {_LIFESPAN}.")


@asynccontextmanager
async def entered(lifespan: Callable[[Any], AbstractAsyncContextManager[None]], app: object) -> AsyncIterator[None]:
    """Enter the lifespan. Raises `ConfigurationError` if its function does not yield exactly once."""
    try:
        async with lifespan(app):
            yield
    except RuntimeError as error:
        wrong = {"generator didn't yield": "does not yield", "generator didn't stop": "yields more than once"}.get(str(error))
        if wrong is None:
            raise
        name = getattr(lifespan, "__name__", type(lifespan).__qualname__)  # a callable object need not have a name
        raise ConfigurationError(f"lifespan={name} {wrong}. It must `yield` once, between the start and the stop.") from error


def check_startup(call: str, function: object) -> None:
    """Raise `ConfigurationError` if the object is not a function without parameters."""
    if not callable(function):
        raise ConfigurationError(f"{call}({function!r}): this is not a function. Write @app.{call} above a function.")
    name = getattr(function, "__name__", repr(function))  # a callable object need not have a name
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(
            f"@app.{call} above {name}: it is a generator, so its body would never run. With a `yield` it is a lifespan: "
            "App(lifespan=...)."
        )
    if not _takes(function, 0):
        raise ConfigurationError(f"@app.{call} calls {name} without arguments, but {name} needs some. Use `app` of the module.")


def check_sequence(call: str, name: str, given: object) -> None:
    """Raise `ConfigurationError` if the value of the argument `name` is a text, or cannot be iterated."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigurationError(f"{call}({name}={given!r}): it takes a list. Write {call}({name}=[...]).")


def check_layers(middleware: Iterable[object]) -> None:
    """Raise `ConfigurationError` for a class, or for an object without any method of middleware: nothing would call it."""
    for layer in middleware:
        if isinstance(layer, type):
            raise ConfigurationError(f"Middleware {layer.__qualname__} is a class. Give an instance: {layer.__qualname__}().")
        if not any(callable(getattr(layer, name, None)) for name in _LAYER):  # the names of the methods of the protocols
            raise ConfigurationError(f"Middleware {layer!r} has no method consume, publish or decided, so it would do nothing.")
        for name in ("consume", "publish"):
            method = getattr(layer, name, None)  # as above
            if method is not None and not (callable(method) and _takes(method, 1, "call_next")):
                problem = f"{name} cannot be called with a first argument and call_next=..., as mqflow does"
                raise ConfigurationError(f"Middleware {layer!r}: {problem}. Write async def {name}(self, ..., call_next).")


def check_hooks(hooks: Iterable[object]) -> None:
    """Raise `ConfigurationError` for a hook that mqflow cannot call as a plain function with an event."""
    for hook in hooks:
        if isinstance(hook, type):
            raise ConfigurationError(f"Hook {hook.__qualname__} is a class. Give an instance: {hook.__qualname__}().")
        if not callable(hook):
            raise ConfigurationError(f"Hook {hook!r} cannot be called. A hook is a function of one event.")
        if inspect.isgeneratorfunction(hook) or inspect.isasyncgenfunction(hook):
            raise ConfigurationError(f"Hook {hook!r} is a generator, so its body would never run. Remove its `yield`.")
        if _is_async(hook):
            problem = "mqflow calls a hook as a plain function, so async code never runs. Start a task, or use middleware"
            raise ConfigurationError(f"Hook {hook!r} is async: {problem}.")


def check_codec(codec: object) -> None:
    """Raise `ConfigurationError` for a class, or for an object that lacks `decode` or `encode`."""
    if isinstance(codec, type):
        raise ConfigurationError(f"codec={codec.__qualname__} is a class. Give an instance: codec={codec.__qualname__}().")
    for name in _CODEC:
        method = getattr(codec, name, None)  # the methods that the protocol names
        if not callable(method):
            raise ConfigurationError(f"codec={codec!r} has no method {name}. A codec has decode and encode.")
        if _is_async(method):
            raise ConfigurationError(f"codec={codec!r}: {name} is async, but is called as a plain function. Write `def`.")


def check_floats(payload: Any) -> None:
    """Raise `ValueError`, with the field, for a payload with nan or inf: JSON has no such number, and it would become null."""
    try:
        packed = msgspec.msgpack.encode(payload)  # a look into these bytes is much quicker than a look at each field
    except (TypeError, ValueError, ArithmeticError):
        packed = _NAN_OR_INF[0]  # MessagePack cannot hold some numbers of JSON
    if any(start in packed for start in _NAN_OR_INF) and (found := _not_finite(msgspec.to_builtins(payload), "")):
        field, value = found
        raise ValueError(f"{field.lstrip('.') or 'it'} is {value}, and JSON has no such number")


def _not_finite(value: Any, field: str) -> tuple[str, float] | None:
    """Return the first field with a float that is not finite, and this float; None if all floats are finite."""
    if isinstance(value, float):
        return None if math.isfinite(value) else (field, value)
    inner: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        inner = ((f"{field}.{name}", each) for name, each in value.items())
    elif isinstance(value, list | tuple):
        inner = ((f"{field}[{index}]", each) for index, each in enumerate(value))
    return next((found for name, each in inner if (found := _not_finite(each, name))), None)


def check_payload_type(payload_type: Any, handler: str, otherwise: str = "give the listener a codec") -> None:
    """Raise `ConfigurationError` if no JSON can be decoded to this type, because every message would be undecodable."""
    if hasattr(payload_type, "model_validate_json"):  # a pydantic model, which msgspec does not know
        return
    shown = getattr(payload_type, "__name__", payload_type)  # an annotation such as `A | B` has no name
    if payload_type is None or payload_type is type(None):
        raise ConfigurationError(f"{handler}: None cannot be a payload. For a payload of any type, write Any.")
    try:
        info = msgspec.inspect.type_info(payload_type)
    except (TypeError, NameError) as error:
        raise ConfigurationError(f"{handler}: {shown} cannot be a payload. {str(error).rstrip('.')}.") from error
    for part in _parts_of(info):
        if isinstance(part, msgspec.inspect.CustomType) and isinstance(part.cls, type) and not _holds_json(part.cls):
            name = part.cls.__name__
            if hasattr(part.cls, "model_validate_json"):  # as above
                problem = f"the pydantic model {name} can be the whole payload, but no part of another type"
                raise ConfigurationError(f"{handler}: {problem}. Take a pydantic.RootModel, or {otherwise}.")
            raise ConfigurationError(
                f"{handler}: JSON cannot be decoded to {name}. Make it a msgspec.Struct, a dataclass, a TypedDict "
                f"or a pydantic model, or {otherwise}."
            )


def _parts_of(info: Any) -> Iterator[Any]:  # Any: only some records of msgspec have these fields
    """Yield the type, the alternatives of a union, and the types of the items of a list, a tuple, a set or a dict."""
    yield info
    # getattr: each kind of record has some of these fields.
    inner = (*getattr(info, "types", ()), *getattr(info, "item_types", ()))
    for part in (*inner, *(getattr(info, name, None) for name in ("item_type", "key_type", "value_type"))):
        if part is not None:
            yield from _parts_of(part)


def check_result(handler: str, result: object) -> None:
    """Raise `TypeError` if the result is an exception or the class of an outcome, because it would commit the message."""
    if isinstance(result, BaseException) or (isinstance(result, type) and issubclass(result, BaseException)):
        shown = result.__name__ if isinstance(result, type) else type(result).__name__
        raise TypeError(f"{handler} returned {shown}, which is an exception. Write `raise {shown}(...)`. The delivery fails.")
    if isinstance(result, type) and issubclass(result, OUTCOMES):
        raise TypeError(f"{handler} returned the class {result.__name__}. Return {result.__name__}(...). The delivery fails.")


def check_keywords(keywords: Mapping[str, object], known: Sequence[str]) -> None:
    """Raise `TypeError` for a keyword that no put has, because the message would be put without it."""
    for name in keywords:
        if name not in known:
            close = closest(name, known)
            meant = f" Did you mean {close}?" if close else ""
            raise TypeError(f"A put has no keyword {name!r}.{meant} It takes {', '.join(known)}.")


def _holds_json(kind: type) -> bool:
    """Return whether a value from JSON can be an instance of this class, such as `object`; true if that is not known."""
    try:
        return any(issubclass(each, kind) for each in _JSON)
    except TypeError:  # `issubclass` does not accept a protocol that has attributes
        return True


def _is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _takes(function: Callable[..., object], count: int, *names: str) -> bool:
    """Return whether the function takes `count` arguments and these names; true if its signature cannot be read."""
    try:
        inspect.signature(function).bind(*range(count), **dict.fromkeys(names))
    except TypeError:
        return False
    except ValueError:
        return True
    return True
