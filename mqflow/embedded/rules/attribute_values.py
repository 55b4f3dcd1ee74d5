"""Checks values against the table of attributes. The code is pure and knows no object."""

from mqflow.mqi.attributes.queue import AttributeSpec
from mqflow.mqi.names import is_object_name, is_text

__all__ = ("accepted", "accepts")


def accepts(spec: AttributeSpec, value: object) -> bool:
    """Return whether the attribute accepts the value."""
    match value:
        case tuple():
            return len(value) <= spec.items_max and all(_accepts_text(spec, item) and item for item in value)
        case str():
            return _accepts_text(spec, value)
        case int():
            return value in (spec.words or {}).values() or (_is_numeric(spec) and spec.low <= value <= spec.high)
        case _:
            return False


def accepted(spec: AttributeSpec) -> str:
    """Return the accepted values in words, for the end of a sentence."""
    if spec.items_max:
        return f"up to {spec.items_max} names of objects are accepted"
    if spec.object_name:
        return "a name of an object, or an empty text, is accepted"
    if spec.chars:
        return f"up to {spec.chars} characters are accepted"
    words = ", ".join(f"{value} ({word})" for word, value in (spec.words or {}).items())
    numbers = f"{spec.low} to {spec.high}" if _is_numeric(spec) else ""
    return " and ".join(filter(None, (words, numbers))) + " are accepted"


def _accepts_text(spec: AttributeSpec, value: str) -> bool:
    return len(value) <= spec.chars and is_text(value) and (not spec.object_name or not value or is_object_name(value))


def _is_numeric(spec: AttributeSpec) -> bool:
    return spec.words is None or spec.high > spec.low
