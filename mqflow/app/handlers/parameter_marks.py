"""`Header` and `Property`: marks for parameters of a handler that receive a header field or a property of the message.

This file reads annotations and messages; it knows no queue.
"""

from collections.abc import Callable, Mapping
from inspect import Parameter
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec
from msgspec import Struct

from mqflow.app.errors import ConfigurationError
from mqflow.app.handlers.message import Message
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.policy.did_you_mean import closest
from mqflow.policy.poison.outcomes import UndecodableError

__all__ = ("FromMessage", "Header", "Property", "arguments_from", "from_message")

_OF_JMS: Final = (
    "JMSCorrelationID",
    "JMSDeliveryMode",
    "JMSMessageID",
    "JMSPriority",
    "JMSTimestamp",
    "JMSType",
    "JMSXAppID",
    "JMSXUserID",
)
_PLAIN: Final = (bool, bytes, float, int, str)


class Header(Struct, frozen=True):
    """Marks a parameter of a handler that receives a header field of the message: `Annotated[bytes, Header("CorrelId")]`."""

    #: The MQ name of a field of the message descriptor, for example `CorrelId` or `BackoutCount`; or a header of JMS, for
    #: example `JMSType`. Empty means the name of the parameter.
    name: str = ""


class Property(Struct, frozen=True):
    """Marks a parameter of a handler that receives a property of the message: `Annotated[str, Property("tenant")]`."""

    #: The name of the property; empty means the name of the parameter.
    name: str = ""


class FromMessage(Struct, frozen=True, kw_only=True):
    """A parameter that receives a part of the message."""

    parameter: str
    #: The name of the part in error texts: `property tenant`, `header CorrelId`.
    named: str
    #: Returns the value; None if the message does not have the part.
    read: Callable[[Message], Any]
    #: The annotation without its mark.
    kind: Any
    #: True if the parameter has a default, or takes None.
    is_optional: bool
    has_default: bool


def from_message(parameter: Parameter, hint: Any, handler: str) -> FromMessage | None:
    """Return a `FromMessage` for a parameter that is marked `Header` or `Property`; None for any other parameter.

    Raises `ConfigurationError` for a header that does not exist, and for a type that this header cannot have.
    """
    marks = hint.__metadata__ if get_origin(hint) is Annotated else ()
    mark = next((each for each in marks if isinstance(each, Header | Property)), None)
    if mark is None:
        for each in marks:
            if each is Header or each is Property:
                problem = f"{each.__name__} is a class. Write Annotated[..., {each.__name__}({parameter.name!r})]"
                raise ConfigurationError(f"{handler}: parameter {parameter.name!r}: {problem}.")
        return None
    others = tuple(each for each in marks if each is not mark)
    base = get_args(hint)[0]
    kind = Annotated[(base, *others)] if others else base
    name = mark.name or parameter.name
    has_default = parameter.default is not Parameter.empty
    is_header = isinstance(mark, Header)
    if is_header:
        _check_header(name, base, f"{handler}: parameter {parameter.name!r}")
    return FromMessage(
        parameter=parameter.name,
        named=f"{'header' if is_header else 'property'} {name}",
        read=_header(name) if is_header else lambda message: message.properties.get(name),
        kind=kind,
        is_optional=has_default or base is None or NoneType in get_args(base),
        has_default=has_default,
    )


def arguments_from(parts: tuple[FromMessage, ...], message: Message) -> Mapping[str, Any]:
    """Return the arguments for the parameters. If the message lacks a part, the parameter keeps its default or gets None.

    Raises `UndecodableError` if the message lacks a part that the parameter needs, or has a value of another type.
    """
    found: dict[str, Any] = {}
    for part in parts:
        value = part.read(message)
        if value is None:
            if not part.is_optional:
                raise UndecodableError(f"the message has no {part.named}")
            if not part.has_default:
                found[part.parameter] = None
            continue
        try:
            found[part.parameter] = msgspec.convert(value, part.kind, strict=False)
        except msgspec.ValidationError as error:
            raise UndecodableError(f"{part.named}: {error}") from error
    return found


def _header(name: str) -> Callable[[Message], Any]:
    # If no handler uses `Header`, this module is not loaded.
    from mqflow.mqi.properties.descriptor_properties import DESCRIPTOR_FIELDS  # noqa: PLC0415 - as above
    from mqflow.mqi.properties.property_names import DESCRIPTOR_PREFIX  # noqa: PLC0415 - as above
    from mqflow.mqi.selectors.fields import selectable  # noqa: PLC0415 - as above

    field = f"{DESCRIPTOR_PREFIX}{name}" if name in DESCRIPTOR_FIELDS else name
    return lambda message: selectable(message.descriptor, message.data)(field)


def _check_header(name: str, kind: Any, place: str) -> None:
    from mqflow.mqi.properties.descriptor_properties import DESCRIPTOR_FIELDS  # noqa: PLC0415 - as in `_header`

    if name not in DESCRIPTOR_FIELDS and name not in _OF_JMS:
        known = (*DESCRIPTOR_FIELDS, *_OF_JMS)
        close = closest(name, known)
        meant = f" Did you mean {close}?" if close else ""
        raise ConfigurationError(
            f"{place}: there is no header {name!r}.{meant} The headers are {', '.join(known)}. "
            "A property of the application is Property(...)."
        )
    if name in DESCRIPTOR_FIELDS and kind in _PLAIN:
        sample = _header(name)(Message(MessageDescriptor(), b"", ""))
        if not isinstance(sample, kind):
            raise ConfigurationError(f"{place}: {name} is of type {type(sample).__name__}, and never of type {kind.__name__}.")
