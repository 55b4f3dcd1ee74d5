"""Converts attribute values between PCF parameters and Python values, according to the table of attributes."""

from collections.abc import Collection, Mapping
from typing import Final

from mqflow.embedded.mqsc.commands import Value
from mqflow.embedded.mqsc.values import accepted, typed
from mqflow.embedded.pcf.request import Request, unexpected
from mqflow.embedded.rules.attribute_values import accepts
from mqflow.mqi.attributes.queue import AttributeSpec
from mqflow.mqi.pcf.codes import PCFReason
from mqflow.mqi.pcf.structures import CFIN, CFIN64, CFSL, CFST, Parameter, PCFError

__all__ = ("parameter_of", "settings_of", "value_from")

_PADDED_CHARS_MAX: Final = 264
"""Longer texts (topic strings, peer names) are not padded in a response. The longest padded text is a connection name."""


def parameter_of(spec: AttributeSpec, value: object) -> Parameter:
    """Return the parameter for a response. A text is padded with blanks to the length of the attribute."""
    match value:
        case str() if spec.chars <= _PADDED_CHARS_MAX:
            return CFST(spec.selector, value.ljust(spec.chars))
        case str():
            return CFST(spec.selector, value)
        case tuple():
            return CFSL(spec.selector, tuple(str(item).ljust(spec.chars) for item in value))
        case int():
            return CFIN(spec.selector, int(value))
        case _:
            raise TypeError(f"{spec.keyword} is {value!r}, which no PCF parameter holds")


def value_from(spec: AttributeSpec, parameter: Parameter) -> Value:
    """Return the value of the parameter. Refuses a wrong structure, and with 4005 a value that the attribute cannot have."""
    if spec.items_max:
        return _list_from(spec, parameter)
    if spec.chars:
        if not isinstance(parameter, CFST):
            raise unexpected(parameter)
        text = parameter.value.rstrip(" \0")
        if not accepts(spec, text):
            raise _refused(spec, text)
        return text
    if not isinstance(parameter, CFIN | CFIN64):
        raise unexpected(parameter)
    number = parameter.value
    if accepts(spec, number):
        return typed(spec, number)
    raise _refused(spec, number)


def settings_of(request: Request, settable: Mapping[int, AttributeSpec], own: Collection[int], whose: str) -> dict[str, Value]:
    """Return the values that the command sets, by field. Each parameter that is not in `own` must be settable.

    `whose` is the object's name in an error, for example "a local queue".
    """
    values: dict[str, Value] = {}
    for identifier, parameter in request.parameters.items():
        if identifier in own:
            continue
        spec = settable.get(identifier)
        if spec is None:
            raise unexpected(parameter, f"Parameter {identifier} is no attribute of {whose}, or cannot be set")
        values[spec.field] = value_from(spec, parameter)
    return values


def _list_from(spec: AttributeSpec, parameter: Parameter) -> Value:
    """Return a list of names without blank names. A single text gives a list with one name."""
    if isinstance(parameter, CFST):
        texts: tuple[str, ...] = (parameter.value,)
    elif isinstance(parameter, CFSL):
        texts = parameter.value
    else:
        raise unexpected(parameter)
    names = tuple(stripped for text in texts if (stripped := text.rstrip(" \0")))
    if not accepts(spec, names):
        raise _refused(spec, ", ".join(names))
    return names


def _refused(spec: AttributeSpec, value: object) -> PCFError:
    detail = f"{spec.keyword}({value}) is not valid; it takes {accepted(spec)}"
    return PCFError(PCFReason.ATTR_VALUE_ERROR, detail=detail, parameter=spec.selector)
