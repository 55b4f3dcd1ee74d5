"""The administration as requests: a request has the name of a call of `administration.interface`, and its arguments.

The interface gives the types of the arguments and of the result, so a new call of the interface needs no change here. This
module knows no socket and no rule of MQ.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from inspect import Parameter, signature
from operator import attrgetter
from typing import Any, Final, get_type_hints

from msgspec import Struct, ValidationError, convert, defstruct
from msgspec.structs import asdict

from mqflow.embedded.administration import interface
from mqflow.embedded.catalogue.kinds import DefinedObject, object_from
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason

__all__ = ("ANSWERS", "PARTS", "PROPERTIES", "Administer", "administered", "request_of")


class Administer(Struct, frozen=True, tag=True):
    """A call of `Administration`, or of one of its parts."""

    #: The name of the call in the interface: for example "queues", or "publishing.topics" for a part.
    call: str
    #: The arguments, by name.
    arguments: Mapping[str, Any]  # Any: the interface gives the type of each argument


PARTS: Final[Mapping[str, type[Any]]] = {  # Any: protocols have no common class
    "authorities.": interface.AuthorityAdministration,
    "channels.": interface.ChannelAdministration,
    "publishing.": interface.TopicAdministration,
    "objects.": interface.ObjectAdministration,
}
"""The parts of the interface."""
PROPERTIES: Final = frozenset(name for name, member in vars(interface.Administration).items() if isinstance(member, property))
"""The calls that are properties. Only the interface itself has properties; its parts have no properties."""


# Any, here and below: a function with any parameters and any result.
def _calls_of(protocol: type, part: str = "") -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, member in vars(protocol).items():
        function: Any = member.fget if isinstance(member, property) else member
        if not name.startswith("_") and get_type_hints(function)["return"] not in PARTS.values():
            yield part + name, function


_CALLS: Final = {
    **dict(_calls_of(interface.Administration)),
    **{call: function for part, protocol in PARTS.items() for call, function in _calls_of(protocol, part)},
}


@cache
def _arguments_of(call: str) -> type[Struct]:
    function = _CALLS[call]
    hints = get_type_hints(function)
    fields = [
        (name, hints[name]) if parameter.default is Parameter.empty else (name, hints[name], parameter.default)
        for name, parameter in signature(function).parameters.items()
        if name != "self"
    ]
    return defstruct("Arguments", fields)


ANSWERS: Final[Mapping[str, Any]] = {call: get_type_hints(function)["return"] for call, function in _CALLS.items()}
"""The type of the result of each call."""


def request_of(call: str, *arguments: Any, **named: Any) -> Administer:
    """Return the request for a call with these arguments. Raises `TypeError` for arguments that the call does not accept."""
    bound = signature(_CALLS[call]).bind(None, *arguments, **named).arguments
    return Administer(call, {name: _plain(value) for name, value in bound.items() if name != "self"})


def _plain(value: Any) -> Any:
    """Return the value in a type that the wire can encode."""
    if isinstance(value, Mapping):
        return dict(value)
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else value


def administered(administration: interface.Administration, request: Administer) -> object:
    """Make the call, and return its result. Raises `MQIError` 2319 for an unknown call, and for arguments of wrong types."""
    try:
        arguments = asdict(convert(request.arguments, _arguments_of(request.call)))
        # The kind of the object decides the types of its values, so only `object_from` can check them.
        checked = {
            name: object_from(value.fields) if isinstance(value, DefinedObject) else value for name, value in arguments.items()
        }
    except (KeyError, ValidationError) as error:
        raise error_for(Reason.ITEM_VALUE_ERROR, request.call, detail=str(error)) from None
    target = attrgetter(request.call)(administration)
    return target(**checked) if callable(target) else target
