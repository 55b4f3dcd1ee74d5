"""One PCF command, and the checks of its parameters.

Required parameters come first, in order. A parameter that is sent twice, or that is unexpected, is refused.

This module is pure. It knows structures and reasons, but no command.
Source: IBM, "How the definitions are shown" (the order of parameters); the MQRCCF_* reasons.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from mqflow.mqi.names import is_object_name
from mqflow.mqi.pcf.codes import PCFReason
from mqflow.mqi.pcf.structures import CFBF, CFBS, CFIF, CFIL, CFIL64, CFIN, CFIN64, CFSF, CFSL, CFST, Parameter, PCFError

__all__ = ("Filter", "Request", "unexpected")

Filter = CFIF | CFSF | CFBF

_TWICE: Final[Mapping[type[Parameter], PCFReason]] = {
    CFST: PCFReason.CFST_DUPLICATE_PARM,
    CFSL: PCFReason.CFSL_DUPLICATE_PARM,
    CFBS: PCFReason.CFBS_DUPLICATE_PARM,
}


def unexpected(parameter: Parameter, detail: str = "") -> PCFError:
    """Return the error for a parameter that the command does not accept, or accepts only in another structure."""
    identifier = parameter.parameter
    detail = detail or f"Parameter {identifier} does not belong to the command, as a {type(parameter).__name__}"
    reason = PCFReason[f"{type(parameter).__name__.removesuffix('64')}_PARM_ID_ERROR"]
    return PCFError(reason, detail=detail, parameter=identifier)


class Request:
    """A command and its parameters, by identifier."""

    def __init__(self, parameters: Iterable[Parameter]) -> None:
        self.filter: Filter | None = None
        self._parameters: dict[int, Parameter] = {}
        for parameter in parameters:
            self._keep(parameter)

    @property
    def parameters(self) -> Mapping[int, Parameter]:
        """All parameters except the filter, in the order of the command."""
        return self._parameters

    def check(self, required: Sequence[int], optional: Collection[int] | None, *, filters: bool) -> None:
        """Refuse parameters that the command does not accept. If `optional` is None, the caller checks optional parameters."""
        sent = tuple(self._parameters.values())
        if len(sent) < len(required):
            detail = f"{len(sent)} parameters were sent, and {', '.join(map(str, map(int, required)))} are required"
            raise PCFError(PCFReason.PARM_COUNT_TOO_SMALL, detail=detail, parameter=required[len(sent)])
        for wanted, found in zip(required, sent[: len(required)], strict=True):
            if found.parameter == wanted:
                continue
            if wanted in self._parameters:
                detail = f"Parameter {wanted:d} is required before {found.parameter}"
                raise PCFError(PCFReason.PARM_SEQUENCE_ERROR, detail=detail, parameter=found.parameter)
            raise unexpected(found, f"Parameter {wanted:d} is required here, and {found.parameter} was sent")
        for parameter in sent[len(required) :]:
            if optional is not None and parameter.parameter not in optional:
                raise unexpected(parameter)
        if self.filter is not None and not filters:
            raise unexpected(self.filter)

    def has(self, identifier: int) -> bool:
        """Return whether the command has the parameter."""
        return identifier in self._parameters

    def number(self, identifier: int, default: int) -> int:
        """Return a number, or the default if the command does not have the parameter."""
        parameter = self._parameters.get(identifier)
        if parameter is None:
            return default
        if not isinstance(parameter, CFIN | CFIN64):
            raise unexpected(parameter)
        return parameter.value

    def choice(self, identifier: int, choices: Collection[int], default: int, reason: PCFReason) -> int:
        """Return one of `choices`, or the default. Refuses any other number with this reason."""
        value = self.number(identifier, default)
        if value not in choices:
            detail = f"Parameter {identifier:d} is {value}; {', '.join(str(int(choice)) for choice in choices)} are accepted"
            raise PCFError(reason, detail=detail, parameter=identifier)
        return value

    def yes(self, identifier: int, reason: PCFReason) -> bool:
        """Return whether the parameter is 1 (yes). The default is 0 (no). Refuses any other number with this reason."""
        return bool(self.choice(identifier, (0, 1), 0, reason))

    def text(self, identifier: int, default: str = "") -> str:
        """Return a text without its trailing blanks, or the default if the command does not have the parameter."""
        parameter = self._parameters.get(identifier)
        if parameter is None:
            return default
        if not isinstance(parameter, CFST):
            raise unexpected(parameter)
        return parameter.value.rstrip(" \0")

    def name(self, identifier: int, reason: PCFReason = PCFReason.OBJECT_NAME_ERROR) -> str:
        """Return an object name."""
        name = self.text(identifier)
        if not is_object_name(name):
            raise PCFError(reason, detail=f"{name!r} is no name of an object", parameter=identifier)
        return name

    def pattern(self, identifier: int, reason: PCFReason = PCFReason.OBJECT_NAME_ERROR) -> str:
        """Return a name, or a generic name that ends in an asterisk."""
        pattern = self.text(identifier)
        if pattern != "*" and not is_object_name(pattern.removesuffix("*")):
            raise PCFError(reason, detail=f"{pattern!r} is no name and no generic name", parameter=identifier)
        return pattern

    def bytes(self, identifier: int) -> bytes:
        """Return a byte string; empty if the command does not have the parameter."""
        parameter = self._parameters.get(identifier)
        if parameter is None:
            return b""
        if not isinstance(parameter, CFBS):
            raise unexpected(parameter)
        return parameter.value

    def texts(self, identifier: int) -> tuple[str, ...]:
        """Return a list of texts without trailing blanks. A single text gives a list with one item."""
        parameter = self._parameters.get(identifier)
        if parameter is None:
            return ()
        if isinstance(parameter, CFST):
            return (parameter.value.rstrip(" \0"),)
        if not isinstance(parameter, CFSL):
            raise unexpected(parameter)
        return parameter.value

    def numbers(self, identifier: int) -> tuple[int, ...] | None:
        """Return a list of numbers; None if the command does not have the parameter. Refuses duplicate numbers."""
        parameter = self._parameters.get(identifier)
        if parameter is None:
            return None
        if not isinstance(parameter, CFIL | CFIL64):
            raise unexpected(parameter)
        if len(set(parameter.value)) < len(parameter.value):
            detail = f"A number is twice in the list of parameter {identifier:d}"
            raise PCFError(PCFReason.CFIL_DUPLICATE_VALUE, detail=detail, parameter=identifier)
        return parameter.value

    def _keep(self, parameter: Parameter) -> None:
        if isinstance(parameter, Filter):
            if self.filter is not None:
                detail = "A command takes one filter"
                raise PCFError(PCFReason.FILTER_ERROR, detail=detail, parameter=parameter.parameter)
            self.filter = parameter
        elif parameter.parameter in self._parameters:
            reason = _TWICE.get(type(parameter), PCFReason.CFIN_DUPLICATE_PARM)
            detail = f"Parameter {parameter.parameter} was sent twice"
            raise PCFError(reason, detail=detail, parameter=parameter.parameter)
        else:
            self._parameters[parameter.parameter] = parameter
