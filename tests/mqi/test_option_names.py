"""Options in sentences have the names of the MQI."""

import pytest

from mqflow.mqi.option_names import option_names
from mqflow.mqi.options import CloseOption, GetOption, OpenOption, PutOption, SubscribeOption

NAMES = [
    (OpenOption.OUTPUT | OpenOption.BROWSE, "MQOO_BROWSE, MQOO_OUTPUT"),
    (GetOption.COMPLETE_MSG, "MQGMO_COMPLETE_MSG"),
    (PutOption.PASS_ALL_CONTEXT | PutOption.SYNCPOINT, "MQPMO_SYNCPOINT, MQPMO_PASS_ALL_CONTEXT"),
    (CloseOption.REMOVE_SUB, "MQCO_REMOVE_SUB"),
    (SubscribeOption.CREATE, "MQSO_CREATE"),
]


@pytest.mark.parametrize(("options", "said"), NAMES, ids=[said for _, said in NAMES])
def test_options_are_said_by_their_names(options: OpenOption, said: str) -> None:
    assert said == option_names(options)
