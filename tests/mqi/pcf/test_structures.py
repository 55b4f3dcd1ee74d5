"""PCF messages as bytes: layouts, byte orders, character sets, every structure, and bytes that are no message."""

import importlib.util
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.mqi.pcf.codes import CommandCode, FilterOperator, ParameterId, PCFReason, StructureType
from mqflow.mqi.pcf.pcf_reader import parse
from mqflow.mqi.pcf.structures import (
    CFBF,
    CFBS,
    CFGR,
    CFH,
    CFIF,
    CFIL,
    CFIL64,
    CFIN,
    CFIN64,
    CFSF,
    CFSL,
    CFST,
    Parameter,
    PCFError,
    PCFMessage,
    to_bytes,
)
from mqflow.mqi.reason_codes import Reason, reason_name

LITTLE, BIG = 546, 273

numbers = st.integers(-(2**31), 2**31 - 1)
long_numbers = st.integers(-(2**63), 2**63 - 1)
identifiers = st.integers(0, 10_000)
# Characters of both CCSID 500 (EBCDIC) and UTF-8, without a blank or NUL at the end, because those are padding.
texts = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=60).map(str.rstrip)

simple: st.SearchStrategy[Parameter] = st.one_of(
    st.builds(CFIN, identifiers, numbers),
    st.builds(CFIN64, identifiers, long_numbers),
    st.builds(CFST, identifiers, texts, st.sampled_from([0, 1208, 500])),
    st.builds(CFBS, identifiers, st.binary(max_size=40)),
    st.builds(CFIL, identifiers, st.lists(numbers, max_size=9).map(tuple)),
    st.builds(CFIL64, identifiers, st.lists(long_numbers, max_size=9).map(tuple)),
    st.builds(CFSL, identifiers, st.lists(texts, max_size=5).map(tuple), st.sampled_from([0, 1208, 500])),
    st.builds(CFIF, identifiers, st.sampled_from(FilterOperator), numbers),
    st.builds(CFSF, identifiers, st.sampled_from(FilterOperator), texts),
    st.builds(CFBF, identifiers, st.sampled_from(FilterOperator), st.binary(max_size=40)),
)
parameters = st.recursive(
    simple, lambda inner: st.builds(CFGR, identifiers, st.lists(inner, max_size=4).map(tuple)), max_leaves=12
)
headers = st.builds(
    CFH,
    type=st.sampled_from([StructureType.COMMAND, StructureType.RESPONSE, StructureType.EVENT, StructureType.STATISTICS]),
    version=st.sampled_from([1, 2, 3]), command=numbers, sequence_number=numbers, last=st.booleans(), completion=numbers,
    reason=numbers,
)  # fmt: skip
messages = st.builds(PCFMessage, headers, st.lists(parameters, max_size=6).map(tuple))


@given(messages, st.sampled_from([LITTLE, BIG]), st.sampled_from([1208, 819, 500, 1200]))
def test_a_message_written_is_read_again(message: PCFMessage, encoding: int, ccsid: int) -> None:
    assert message == parse(to_bytes(message, encoding=encoding, ccsid=ccsid), encoding=encoding, ccsid=ccsid)


@given(messages)
def test_every_structure_is_a_multiple_of_four_bytes_long(message: PCFMessage) -> None:
    assert 0 == len(to_bytes(message)) % 4


@given(messages, st.data())
def test_any_change_of_a_message_raises_only_a_pcf_error(message: PCFMessage, data: st.DataObject) -> None:
    raw = bytearray(to_bytes(message, encoding=LITTLE))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])

    assert outcome(cut, LITTLE, 1208) in {0, *PCFReason}


@given(st.binary(max_size=200), st.sampled_from([LITTLE, BIG]), st.sampled_from([1208, 500, 0, 77_777]))
def test_any_bytes_give_a_message_or_a_pcf_error(data: bytes, encoding: int, ccsid: int) -> None:
    assert outcome(data, encoding, ccsid) in {0, *PCFReason}


def outcome(data: bytes, encoding: int, ccsid: int) -> int:
    """Return 0 if the bytes are a message, otherwise the reason of the refusal."""
    try:
        parse(data, encoding=encoding, ccsid=ccsid)
    except PCFError as error:
        return error.reason
    return 0


def header(**changes: int) -> bytes:
    """Return a header of a command without parameters, with some of its numbers changed."""
    fields = {"type": 1, "length": 36, "version": 1, "command": 40, "sequence": 1, "control": 1, "cc": 0, "rc": 0, "count": 0}
    return struct.pack("<9i", *(fields | changes).values())


def structure(kind: int, length: int, *rest: int, content: bytes = b"") -> bytes:
    """Return a header with a parameter count of 1, and this parameter."""
    return header(count=1) + struct.pack(f"<{2 + len(rest)}i", kind, length, *rest) + content


WRONG = {
    # Every reason is the constant of the same name: MQRCCF_CFH_*, MQRCCF_CFIN_* ...
    "nothing at all": (b"", PCFReason.MSG_LENGTH_ERROR),
    "a header that is cut off": (header()[:35], PCFReason.MSG_LENGTH_ERROR),
    "a type that is a parameter's": (header(type=3), PCFReason.CFH_TYPE_ERROR),
    "a type that no structure has": (header(type=99), PCFReason.CFH_TYPE_ERROR),
    "the other byte order": (struct.pack(">9i", 1, 36, 1, 40, 1, 1, 0, 0, 0), PCFReason.CFH_TYPE_ERROR),
    "a header that says it is longer": (header(length=40), PCFReason.CFH_LENGTH_ERROR),
    "a version nobody knows": (header(version=4), PCFReason.CFH_VERSION_ERROR),
    "a control that is no word": (header(control=2), PCFReason.CFH_CONTROL_ERROR),
    "fewer than no parameters": (header(count=-1), PCFReason.CFH_PARM_COUNT_ERROR),
    "more parameters than there are": (header(count=2**31 - 1), PCFReason.MSG_LENGTH_ERROR),
    "bytes behind the last parameter": (header() + bytes(4), PCFReason.MSG_LENGTH_ERROR),
    "a structure nobody knows": (structure(99, 16, 1, 0), PCFReason.STRUCTURE_TYPE_ERROR),
    "a number of another length": (structure(3, 20, 1, 0, content=bytes(4)), PCFReason.CFIN_LENGTH_ERROR),
    "a string shorter than its fixed part": (structure(4, 16, 1, 0), PCFReason.CFST_LENGTH_ERROR),
    "a string longer than its structure": (structure(4, 24, 1, 0, 5, content=b"abcd"), PCFReason.CFST_STRING_LENGTH_ERR),
    "a string of negative length": (structure(4, 20, 1, 0, -1), PCFReason.CFST_STRING_LENGTH_ERR),
    "a structure longer than the message": (structure(4, 400, 1, 0, 4, content=b"abcd"), PCFReason.MSG_LENGTH_ERROR),
    "a string of an unknown character set": (structure(4, 24, 1, 99_999, 4, content=b"abcd"), PCFReason.CCSID_ERROR),
    "bytes that are no text": (structure(4, 24, 1, 1208, 4, content=b"\xff\xff\xff\xff"), PCFReason.CCSID_ERROR),
    "a list with more numbers than it has": (structure(5, 20, 1, 2, content=bytes(4)), PCFReason.CFIL_COUNT_ERROR),
    "a list with fewer than no numbers": (structure(5, 16, 1, -1), PCFReason.CFIL_COUNT_ERROR),
    "a list with more texts than it has": (structure(6, 28, 1, 0, 2, 4, content=b"abcd"), PCFReason.CFSL_STRING_LENGTH_ERR),
    "a list of a thousand million empty texts": (structure(6, 24, 1, 0, 10**9, 0), PCFReason.CFSL_COUNT_ERROR),
    "lists that together have more empty texts than the message has bytes": (
        header(count=2) + struct.pack("<6i", 6, 24, 1, 0, 60, 0) * 2,
        PCFReason.CFSL_COUNT_ERROR,
    ),
    "bytes longer than their structure": (structure(9, 20, 1, 5, content=b"abcd"), PCFReason.CFBS_STRING_LENGTH_ERR),
    "a filter of another length": (structure(13, 24, 1, 2, 3, content=bytes(4)), PCFReason.CFIF_LENGTH_ERROR),
    "a filter longer than its structure": (structure(14, 28, 1, 2, 0, 9, content=b"abcd"), PCFReason.CFSF_FILTER_VAL_LEN_ERR),
    "filter bytes longer than that": (structure(15, 24, 1, 2, 9, content=b"abcd"), PCFReason.CFBF_FILTER_VAL_LEN_ERR),
    "a group with fewer than no members": (structure(20, 16, 1, -1), PCFReason.CFGR_PARM_COUNT_ERROR),
    "a group with more members than follow": (structure(20, 16, 1, 1), PCFReason.MSG_LENGTH_ERROR),
    "groups in groups without end": (
        header(count=1) + struct.pack("<4i", 20, 16, 1, 1) * 50_000,
        PCFReason.CFGR_PARM_COUNT_ERROR,
    ),
}


@pytest.mark.parametrize(("data", "reason"), WRONG.values(), ids=WRONG)
def test_the_reason_names_the_mistake_in_the_bytes(data: bytes, reason: PCFReason) -> None:
    with pytest.raises(PCFError) as caught:
        parse(data, encoding=LITTLE)

    assert reason == caught.value.reason
    assert reason.mq_name in str(caught.value)


def test_the_bytes_of_a_message_are_those_of_the_layout_tables() -> None:
    message = PCFMessage(
        CFH(command=CommandCode.INQUIRE_Q, version=3), (CFST(2016, "QUEUE"), CFIN(20, 1), CFIN64(7, -2), CFSL(3, ("a", "bc")))
    )

    expected = struct.pack(">9i", 1, 36, 3, 13, 1, 1, 0, 0, 4)
    expected += struct.pack(">5i", 4, 28, 2016, 0, 5) + b"QUEUE\0\0\0"
    expected += struct.pack(">4i", 3, 16, 20, 1)
    expected += struct.pack(">4iq", 23, 24, 7, 0, -2)
    expected += struct.pack(">6i", 6, 28, 3, 0, 2, 2) + b"a bc"
    assert expected == to_bytes(message, encoding=BIG)


OVERSIZED = [
    (CFH(command=2**31), (), Reason.CFH_ERROR, "CFH of parameter 0: command 2147483648 has more than 32 bits"),
    (CFH(), (CFIN(3, -(2**31) - 1),), Reason.CFIN_ERROR, "CFIN of parameter 3: value -2147483649 has more than 32 bits"),
    (CFH(), (CFIL64(7, (1, 2**63)),), Reason.CFIL_ERROR, f"CFIL64 of parameter 7: value {2**63} has more than 64 bits"),
    (CFH(), (CFGR(9, (CFIF(8, 2**31, 1),)),), Reason.CFIF_ERROR, "CFIF of parameter 8: operator 2147483648 has more than 32"),
    (CFH(), (CFST(2**31, "x"),), Reason.CFST_ERROR, "CFST of parameter 2147483648: parameter 2147483648 has more than 32"),
]


@pytest.mark.parametrize(
    ("head", "parameters", "reason", "words"), OVERSIZED, ids=[str(reason.name) for _, _, reason, _ in OVERSIZED]
)
def test_a_number_with_too_many_bits_is_refused_with_its_structure_and_field(
    head: CFH, parameters: tuple[Parameter, ...], reason: Reason, words: str
) -> None:
    with pytest.raises(PCFError) as refused:
        to_bytes(PCFMessage(head, parameters))

    assert (reason, words) == (refused.value.reason, refused.value.detail[: len(words)])


def test_a_reason_of_pcf_is_called_by_its_name() -> None:
    assert "MQRCCF_COMMAND_FAILED (3008)" == reason_name(3008)


def test_the_numbers_are_those_that_ibms_package_publishes() -> None:
    if importlib.util.find_spec("ibmmq") is None:
        pytest.skip("ibmmq is not installed")
    published = published_constants()
    for table, prefixes in (
        (StructureType, ("MQCFT",)),
        (FilterOperator, ("MQCFOP",)),
        (CommandCode, ("MQCMD",)),
        (PCFReason, ("MQRCCF",)),
        (ParameterId, ("MQIACF", "MQCACF", "MQBACF")),
    ):
        for member in table:
            assert int(member) in [published.get(f"{prefix}_{member.name}") for prefix in prefixes], member


def published_constants() -> dict[str, int]:
    """Return the constants from the text of the file: the import of the package needs a library of IBM MQ."""
    spec = importlib.util.find_spec("ibmmq")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    constants: dict[str, int] = {}
    for line in Path(spec.submodule_search_locations[0], "CMQCFC.py").read_text("utf-8").splitlines():
        name, equals, value = line.partition("=")
        if equals and name.startswith("MQ") and value.strip().removeprefix("-").isdecimal():
            constants[name.strip()] = int(value)
    return constants
