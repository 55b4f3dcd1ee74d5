"""Selects the objects that pass the filter of a command, and their attributes for the responses.

This module is pure. Source: IBM, MQCFIF and MQCFSF (operators; a response always has the filter's attribute), MQIACF_ALL.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final

from mqflow.embedded.mqsc.display import matches
from mqflow.embedded.pcf.request import Filter, Request
from mqflow.embedded.pcf.values import parameter_of
from mqflow.mqi.attributes.queue import AttributeSpec
from mqflow.mqi.pcf.codes import FilterOperator, ParameterId, PCFReason
from mqflow.mqi.pcf.structures import Parameter, PCFError
from mqflow.mqi.reason_codes import Reason

__all__ = ("holds", "is_chosen", "responses", "wanted")

# Any: the functions of `operator` compare any two values of one type.
_COMPARE: Final[Mapping[int, Callable[[Any, Any], bool]]] = {
    FilterOperator.LESS: lt,
    FilterOperator.EQUAL: eq,
    FilterOperator.NOT_GREATER: le,
    FilterOperator.GREATER: gt,
    FilterOperator.NOT_EQUAL: ne,
    FilterOperator.NOT_LESS: ge,
}
_IN_LISTS: Final[Mapping[int, tuple[bool, bool]]] = {
    FilterOperator.CONTAINS: (True, False),
    FilterOperator.EXCLUDES: (False, False),
    FilterOperator.CONTAINS_GEN: (True, True),
    FilterOperator.EXCLUDES_GEN: (False, True),
}
"""For each operator: whether the list must contain the item, and whether the item is a generic name."""
_EVERY: Final[Mapping[int, frozenset[int]]] = {
    1274: frozenset({-1}),  # MQSUB_DURABLE_ALL
    1289: frozenset({-1, -2}),  # MQSUBTYPE_ALL; MQSUBTYPE_USER leaves out proxy subscriptions, which do not exist here
    1314: frozenset({0}),  # MQPSST_ALL
    1352: frozenset({0}),  # MQCAUT_ALL
}
"""The numbers that choose every object, by parameter. A blank text chooses every object too."""
_TEXTS_FROM: Final = 2_001
_SELECTOR_MAX: Final = 9_000
"""An upper limit for the selectors of MQIA, MQCA, MQIACF, MQCACF, MQIACH, MQCACH, MQIAMO, MQCAMO, MQBACF and MQGACF."""


def wanted(request: Request, attributes: int, always: Collection[int]) -> frozenset[int] | None:
    """Return the selectors for the response: those requested, those in `always`, and that of the filter. None means all.

    A response leaves out selectors that this queue manager does not have. Refuses with 2067 a number that is no selector.
    """
    asked = request.numbers(attributes)
    if asked is None or ParameterId.ALL in asked:
        return None
    for selector in asked:
        if not 0 < selector < _SELECTOR_MAX:
            detail = f"{selector} in the list of parameter {attributes:d} is no attribute"
            raise PCFError(Reason.SELECTOR_ERROR, detail=detail, parameter=selector)
    by_filter = () if request.filter is None else (request.filter.parameter,)
    return frozenset((*asked, *always, *by_filter))


def is_chosen(request: Request, choices: Collection[int], row: Mapping[str, Any], specs: Iterable[AttributeSpec]) -> bool:
    """Return whether the object has each value that the command asks for. `choices` has the parameters that choose objects.

    An object without the attribute is not chosen.
    """
    fields = {spec.selector: spec.field for spec in specs}
    for choice in filter(request.has, choices):
        asked = request.text(choice) if choice >= _TEXTS_FROM else request.number(choice, 0)
        if asked == "" or asked in _EVERY.get(choice, ()):
            continue
        if choice not in fields or row[fields[choice]] != asked:
            return False
    return True


def responses(
    rows: Iterable[tuple[Mapping[str, Any], Iterable[AttributeSpec]]],  # Any: the table of attributes gives each value its type
    selectors: frozenset[int] | None,
    condition: Filter | None,
) -> Iterator[tuple[Parameter, ...]]:
    """Yield the parameters of each object that passes the filter: its attributes with a selector in `selectors`."""
    for row, specs in rows:
        found = {spec.selector: spec for spec in specs if spec.selector and row[spec.field] is not None}
        if condition is not None and not _passes(condition, row, found):
            continue
        yield tuple(
            parameter_of(spec, row[spec.field])
            for selector, spec in found.items()
            if selectors is None or selector in selectors
        )


def holds(condition: Filter, value: object) -> bool:
    """Return whether the value passes the filter. Refuses an operator that cannot compare such a value."""
    operand = condition.value
    if isinstance(operand, str):
        operand = operand.rstrip(" \0")
    if isinstance(value, tuple) and condition.operator in _IN_LISTS:
        present, generic = _IN_LISTS[condition.operator]
        return present == any(matches(str(operand), str(item)) if generic else item == operand for item in value)
    if condition.operator in _COMPARE and isinstance(value, type(operand)):  # a bool is an int
        return bool(_COMPARE[condition.operator](value, operand))
    if condition.operator in {FilterOperator.LIKE, FilterOperator.NOT_LIKE} and isinstance(operand, str):
        return matches(operand, str(value)) == (condition.operator == FilterOperator.LIKE)
    detail = f"Operator {condition.operator} does not compare parameter {condition.parameter}"
    reason = PCFReason[f"{type(condition).__name__}_OPERATOR_ERROR"]
    raise PCFError(reason, detail=detail, parameter=condition.parameter)


def _passes(condition: Filter, row: Mapping[str, Any], found: Mapping[int, AttributeSpec]) -> bool:
    spec = found.get(condition.parameter)
    # An object without the attribute does not pass the filter.
    return spec is not None and holds(condition, row[spec.field])
