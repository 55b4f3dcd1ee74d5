"""IBM's own npm package reads the headers that our codecs write, and we read the headers that it writes.

Its structure code is JavaScript and needs no MQ library. The package comes from the npm registry, once, with a pinned
hash; node comes with pyright.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mqflow.mqi.headers import dead_letter, rfh2
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.mqi.headers.rfh2 import RFH2, Folder, FolderProperty
from mqflow.mqi.headers.rfh2_folder import folder_text
from mqflow.mqi.options import Encoding
from tests.foreign.npm import node_programs, unpacked
from tests.mqi.strategies import ccsids, dead_letter_headers, element_names, encodings, fields, values

PACKAGE = "ibmmq@2.1.9"
SHA512 = (
    "f272daba5827655db5ed5ecfb3a2d696f2bee4da68a84b530fd1569a6d45b534"
    "8a1f12655fc279258d38f18f48342e335dc1baabe5aa5f3ce6410171ff227139"
)
SCRIPT = Path(__file__).with_name("node_headers.js")
# The package uses the byte order and the character set of its machine.
NATIVE, UTF_8 = Encoding.NATIVE, 1208

MANY = settings(
    max_examples=5,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example, HealthCheck.data_too_large],
    derandomize=True,
)


class Node:
    """Runs node with the structure code of the package."""

    def __init__(self, program: Path, structures: Path) -> None:
        self._command = [str(program), str(SCRIPT), str(structures)]

    def __call__(self, asked: Sequence[tuple[str, str, Any]]) -> list[Any]:
        done = subprocess.run(self._command, input=json.dumps(asked), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        answer: list[Any] = json.loads(done.stdout)
        return answer


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    folder = unpacked(PACKAGE, SHA512, tmp_path_factory.mktemp("npm"))
    return Node(node_programs() / "node", folder / "lib" / "mqstruc.js")


@MANY
@given(made=st.lists(dead_letter_headers, min_size=30, max_size=30))
def test_node_reads_every_field_of_a_dead_letter_header(node: Node, made: list[DeadLetterHeader]) -> None:
    read = node([("read", "MQDLH", dead_letter.to_bytes(each, encoding=NATIVE, ccsid=UTF_8).hex()) for each in made])

    assert [as_node_says_it(each) for each in made] == read


@MANY
@given(made=st.lists(dead_letter_headers, min_size=30, max_size=30))
def test_a_dead_letter_header_that_node_wrote_is_read_as_it_was_meant(node: Node, made: list[DeadLetterHeader]) -> None:
    meant = [as_node_says_it(each) for each in made]

    written = node([("write", "MQDLH", each) for each in meant])

    parsed = [dead_letter.parse(bytes.fromhex(data), encoding=NATIVE, ccsid=UTF_8) for data in written]
    assert meant == [as_node_says_it(each) for each in parsed]


folders = st.builds(Folder, element_names, st.lists(st.builds(FolderProperty, element_names, values), max_size=3).map(tuple))
rfh2s = st.builds(RFH2, folders=st.lists(folders, max_size=2).map(tuple), encoding=encodings, ccsid=ccsids, format=fields(8))


@MANY
@given(made=st.lists(rfh2s, min_size=10, max_size=10))
def test_node_reads_the_folders_of_an_rfh2_and_the_data_behind_them(node: Node, made: list[RFH2]) -> None:
    written = [rfh2.to_bytes(each, encoding=NATIVE, ccsid=UTF_8) for each in made]

    read = node([("read", "MQRFH2", data.hex()) for data in written])

    assert [
        {
            "StrucLength": len(data),
            "Encoding": each.encoding,
            "CodedCharSetId": each.ccsid,
            "Format": each.format.strip(),
            "Flags": each.flags,
            "NameValueCCSID": UTF_8,
            "folders": [folder_text(folder).strip() for folder in each.folders],
        }
        for each, data in zip(made, written, strict=True)
    ] == read


def test_an_rfh2_that_node_wrote_is_read_as_it_was_meant(node: Node) -> None:
    folder = b"<usr><desk>7</desk></usr>   "
    meant = {"StrucLength": 36 + 4 + len(folder), "Encoding": 273, "CodedCharSetId": 819, "Format": "MQSTR"}

    (fixed,) = node([("write", "MQRFH2", meant)])

    data = bytes.fromhex(fixed) + len(folder).to_bytes(4, "little") + folder
    header, length = rfh2.parse(data + b"body", encoding=NATIVE, ccsid=UTF_8)
    assert (meant["StrucLength"], 273, 819, "MQSTR") == (length, header.encoding, header.ccsid, header.format)
    assert {"desk": "7"} == {each.name: each.value for each in header.folders[0].properties}


def as_node_says_it(header: DeadLetterHeader) -> dict[str, int | str]:
    """Return the header as node reports it: texts without blanks at both ends, and with the length."""
    return {
        "Reason": header.reason, "DestQName": header.destination_queue.strip(),
        "DestQMgrName": header.destination_queue_manager.strip(), "Encoding": header.encoding, "CodedCharSetId": header.ccsid,
        "Format": header.format.strip(), "PutApplType": header.put_application_type,
        "PutApplName": header.put_application_name.strip(), "PutDate": header.put_date.strip(),
        "PutTime": header.put_time.strip(), "StrucLength": dead_letter.DLH_BYTES,
    }  # fmt: skip
