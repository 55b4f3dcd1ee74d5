"""The options about message properties of a get through a client package: the adapter makes no message handles."""

import pytest

from mqflow.bindings.handles import plan_get, wants_handle
from mqflow.bindings.structures import MQGMO
from mqflow.mqi.options import GetOption
from mqflow.verbs import GetOptions


@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        (GetOption.NONE, True),
        (GetOption.PROPERTIES_IN_HANDLE, True),
        (GetOption.NO_PROPERTIES, False),
        (GetOption.PROPERTIES_FORCE_MQRFH2, False),
        (GetOption.PROPERTIES_COMPATIBILITY, False),
    ],
)
def test_a_handle_is_wanted_unless_an_option_ignores_it(option: GetOption, wanted: bool) -> None:  # noqa: FBT001 - a column
    assert (wanted, False) == (
        wants_handle(GetOptions(options=option, message_handle=True)),
        wants_handle(GetOptions(options=option)),
    )


def test_a_get_that_says_nothing_leaves_properties_to_the_queue() -> None:
    """The same options have the same meaning on every queue manager. A program that must see properties asks for them."""
    asked = GetOption.SYNCPOINT | GetOption.FAIL_IF_QUIESCING

    assert int(asked) == MQGMO.number(plan_get(GetOptions(options=asked)).gmo, "Options")
