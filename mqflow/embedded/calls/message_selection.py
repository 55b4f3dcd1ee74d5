"""Selection strings: gets and browses of a handle skip the messages that its selection string does not select.

Source: IBM, MQOD SelectionString; q023000 (2504); rc2459, rc2516. From memory, without a page of IBM: the length limit (2519),
and which opens get 2516.
"""

from typing import Final

from mqflow.embedded.rules.open_options import INPUT
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.backlog import QueuedMessage
from mqflow.embedded.state.objects import ObjectHandle
from mqflow.mqi.options import ObjectType, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.selectors.fields import selectable
from mqflow.mqi.selectors.selector import Selector, SelectorError, compile_selector

__all__ = ("check_selection", "compile_selection", "passes_over")

_CHARS_MAX: Final = 10_240


def check_selection(text: str) -> None:
    """Refuse an invalid selection string, as `compile_selection` does."""
    compile_selection(text)


def compile_selection(text: str, object_type: int = ObjectType.Q, bits: int = INPUT) -> Selector | None:
    """Compile a selection string to a selector. Return None for an empty string.

    Refuses an invalid string with 2459 or 2519, and an open without input or browse with 2516. Refuses with 2504 a string that
    is false before it reads a property.
    """
    if not text:
        return None
    if len(text) > _CHARS_MAX:
        raise Refusal(Reason.SELECTION_STRING_ERROR, f"{len(text)} characters; a selection string has up to {_CHARS_MAX}")
    if object_type != ObjectType.Q or not bits & (INPUT | OpenOption.BROWSE):
        raise Refusal(Reason.SELECTOR_INVALID_FOR_TYPE, "A selection string goes with a queue opened for input or browse")
    try:
        selector = compile_selector(text)
    except SelectorError as error:
        raise Refusal(Reason.SELECTOR_SYNTAX_ERROR, str(error)) from error
    properties: list[str] = []
    if not selector(properties.append) and not properties:
        raise Refusal(Reason.SELECTOR_ALWAYS_FALSE, "No message can make the selection string true")
    return selector


def passes_over(handle: ObjectHandle, message: QueuedMessage) -> bool:
    """True if the handle has a selector that does not select the message."""
    return handle.selector is not None and not handle.selector(selectable(message.descriptor, message.body))
