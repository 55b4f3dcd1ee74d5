"""The body of a message as text for an editor: what can be edited, and what an edit leaves as it was."""

import pytest

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import Format
from mqflow.mqi.properties.rfh2_properties import with_properties
from mqflow.mqi.properties.set import MessageProperty, PropertyType
from mqflow.policy.dead_letters.edited_message import body_text, with_text

LATIN = MessageDescriptor(format=Format.STRING, ccsid=819)
EBCDIC = MessageDescriptor(format=Format.STRING, ccsid=500)
BYTES = MessageDescriptor()


@pytest.mark.parametrize(
    ("descriptor", "data", "text"),
    [
        (LATIN, b"caf\xe9", "café"),
        (EBCDIC, b"\xc1\xc2", "AB"),
        (BYTES, '{"é": 1}\r\n\t'.encode(), '{"é": 1}\r\n\t'),
        (BYTES, b"", ""),
        (BYTES, b"\x00\x01", None),
        (BYTES, b"\xff", None),
        (MessageDescriptor(format=Format.STRING, ccsid=1208), b"\xff", None),
        (MessageDescriptor(format=Format.RF_HEADER_2), b"RFH broken", None),
    ],
)
def test_a_body_is_text_only_if_it_can_be_written_back(descriptor: MessageDescriptor, data: bytes, text: str | None) -> None:
    assert text == body_text(descriptor, data)


def test_an_edit_is_in_the_character_set_of_the_message_and_keeps_its_headers_byte_for_byte() -> None:
    descriptor, data = with_properties(
        LATIN, b"caf\xe9", [MessageProperty(name="usr.colour", type=PropertyType.STRING, value="red")]
    )
    header = data.removesuffix(b"caf\xe9")

    assert "café" == body_text(descriptor, data)
    assert header + b"th\xe9, long" == with_text(descriptor, data, "thé, long")


def test_a_character_that_the_character_set_lacks_is_refused() -> None:
    with pytest.raises(MQIError, match="2119"):
        with_text(LATIN, b"cafe", "☕")
