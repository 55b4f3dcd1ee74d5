"""The failures of foreign suites and examples that the stand-in does not cause, each with its reason; a person checked each.

Every other failure is ours to fix.
"""

import sys
from typing import Final

__all__ = ("ENDLESS", "THEIRS")

ENDLESS: Final = frozenset({("ibmmq-examples", "put_get_correl_id.py"), ("pymqi-examples", "get_wait_multiple_messages.py")})
"""Examples that wait for messages until the test ends them."""

_WINDOWS: Final = "it looks for a client as Windows installs it"
_RPM: Final = "it looks for a client as rpm installs it, with a module that is not on the package index"
_TEXT: Final = "pymqi takes bytes here and the example gives text, as Python 2 did"

THEIRS: Final[dict[tuple[str, str], str]] = {
    ("ibmmq", "TestRFH2.test_encoding_on_pack_big_endian"): (
        "the package packs an MQRFH2 for an encoding that names no format of integers: no call of the MQI is in it"
    ),
    ("ibmmq-examples", "check_mq_version_rpm.py"): _RPM,
    ("ibmmq-examples", "check_mq_version_windows.py"): _WINDOWS,
    ("jms20", "TestInvalidClientAuthValue"): (
        "it gives an invalid SSLClientAuth, which mq-golang leaves out of the MQCD; jms20 removed the test later"
    ),
    ("pymqi-examples", "alternate_user_id.py"): _TEXT,
    ("pymqi-examples", "avoid_mqrc_already_connected2.py"): _TEXT,
    ("pymqi-examples", "check_mq_version_rpm.py"): _RPM,
    ("pymqi-examples", "check_mq_version_windows.py"): _WINDOWS,
    ("pymqi-examples", "connect_client.py"): "it names no user and no password, and then uses both names",
    ("pymqi-examples", "dynamic_queues.py"): _TEXT,
    ("pymqi-examples", "message_property_set.py"): _TEXT,
    ("pymqi-examples", "put_get_correl_id.py"): _TEXT,
    ("pymqi-examples", "ssl_tls.py"): _TEXT,
}
if sys.version_info < (3, 12):
    THEIRS["ibmmq-examples", "get_wait_truncated_message.py"] = "its syntax is that of Python 3.12"
"""The check, the test or file, and the reason why it fails everywhere."""
