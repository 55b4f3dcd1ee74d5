"""Options by the names that a programmer of the MQI knows: for sentences that say which ones are meant. Pure."""

from enum import IntFlag
from typing import Final

from mqflow.mqi.options import CloseOption, GetOption, OpenOption, PutOption, SubscribeOption

__all__ = ("option_names",)

_PREFIXES: Final[dict[type[IntFlag], str]] = {
    OpenOption: "MQOO_",
    GetOption: "MQGMO_",
    PutOption: "MQPMO_",
    CloseOption: "MQCO_",
    SubscribeOption: "MQSO_",
}


def option_names(options: IntFlag) -> str:
    """Return the options by their names, ``MQOO_BROWSE, MQOO_OUTPUT``: those with a bit of their own, in order of bits."""
    prefix = _PREFIXES[type(options)]
    return ", ".join(f"{prefix}{option.name}" for option in options)
