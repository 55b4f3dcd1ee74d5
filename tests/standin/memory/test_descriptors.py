"""The MQMDE in front of the data of a program that has an MQMD of version 1."""

import pytest

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers.chain import split
from mqflow.mqi.headers.descriptor_extension import DescriptorExtension
from mqflow.mqi.options import Format
from mqflow.standin.memory.descriptors import with_extension, without_extension


@pytest.mark.parametrize("encoding", [546, 273])
@pytest.mark.parametrize("ccsid", [1208, 500])
def test_an_extension_is_written_as_the_descriptor_in_front_of_it_says(ccsid: int, encoding: int) -> None:
    """Source: IBM, MQMDE: CodedCharSetId and Encoding of the MQMD describe the MQMDE behind it."""
    in_group = MessageDescriptor(format=Format.STRING, ccsid=ccsid, encoding=encoding, group_id=b"G" * 24, message_flags=8)

    descriptor, data = with_extension(in_group, b"body", 1_000)

    [extension] = split(descriptor, data).chain
    assert isinstance(extension, DescriptorExtension)
    assert (b"G" * 24, 8, Format.STRING) == (extension.group_id, extension.message_flags, extension.format)
    assert (in_group, b"body") == without_extension(descriptor, data)
