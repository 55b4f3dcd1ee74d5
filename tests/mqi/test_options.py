"""Option bits: IBM's numbers, no two options on one bit, and the names of options in a text."""

from enum import IntFlag

import pytest

from mqflow.mqi.options import (
    CloseOption,
    Encoding,
    GetOption,
    MatchOption,
    MessageFlag,
    OpenOption,
    PutOption,
    Report,
    SubscribeOption,
    option_names,
)

FLAGS = (CloseOption, GetOption, MatchOption, MessageFlag, OpenOption, PutOption)


@pytest.mark.parametrize("options", FLAGS, ids=lambda options: options.__name__)
def test_no_two_options_have_one_number(options: type[IntFlag]) -> None:
    assert len(options.__members__) == len({member.value for member in options.__members__.values()})


@pytest.mark.parametrize(
    ("option", "number"),
    [
        (OpenOption.INPUT_AS_Q_DEF, 1),
        (OpenOption.OUTPUT, 0x10),
        (OpenOption.PASS_ALL_CONTEXT, 0x200),
        (OpenOption.FAIL_IF_QUIESCING, 0x2000),
        (GetOption.WAIT, 1),
        (GetOption.SYNCPOINT, 2),
        (GetOption.BROWSE_NEXT, 0x20),
        (GetOption.CONVERT, 0x4000),
        (GetOption.UNMARKED_BROWSE_MSG, 0x1000000),
        (PutOption.SYNCPOINT, 2),
        (PutOption.PASS_ALL_CONTEXT, 0x200),
        (MatchOption.MSG_TOKEN, 0x20),
        (CloseOption.DELETE_PURGE, 2),
        (Report.DISCARD_MSG, 0x8000000),
        (Report.PASS_DISCARD_AND_EXPIRY, 0x4000),
        (Report.PASS_CORREL_ID, 0x40),
    ],
    ids=repr,
)
def test_an_option_has_ibms_number(option: int, number: int) -> None:
    assert number == option


@pytest.mark.parametrize(
    ("together", "parts"),
    [
        (GetOption.BROWSE_HANDLE, GetOption.BROWSE_FIRST | GetOption.MARK_BROWSE_HANDLE | GetOption.UNMARKED_BROWSE_MSG),
        (GetOption.BROWSE_CO_OP, GetOption.BROWSE_FIRST | GetOption.MARK_BROWSE_CO_OP | GetOption.UNMARKED_BROWSE_MSG),
    ],
)
def test_an_option_that_stands_for_others_is_those(together: GetOption, parts: GetOption) -> None:
    assert parts == together


@pytest.mark.parametrize("kind", ["EXCEPTION", "EXPIRATION", "COA", "COD"])
def test_more_data_in_a_report_is_more_bits_under_its_mask(kind: str) -> None:
    plain, some, full = (Report[f"{kind}{suffix}"] for suffix in ("", "_WITH_DATA", "_WITH_FULL_DATA"))

    assert (plain, some, full) == (some & plain, full & some, Report[f"{kind}_MASK"] & full)
    assert plain < some < full == Report[f"{kind}_MASK"]


def test_the_masks_of_report_options_leave_no_bit_out() -> None:
    masks = (Report.REJECT_UNSUP_MASK, Report.ACCEPT_UNSUP_MASK, Report.ACCEPT_UNSUP_IF_XMIT_MASK)

    assert 0xFFFFFFFF == sum(mask.value for mask in masks)


@pytest.mark.parametrize(("encoding", "parts"), [(273, (1, 0x10, 0x100)), (546, (2, 0x20, 0x200)), (785, (1, 0x10, 0x300))])
def test_an_encoding_is_taken_apart_by_its_masks(encoding: int, parts: tuple[int, int, int]) -> None:
    assert encoding in {Encoding.NORMAL, Encoding.NATIVE, Encoding.ZOS}
    assert parts == (encoding & Encoding.INTEGER_MASK, encoding & Encoding.DECIMAL_MASK, encoding & Encoding.FLOAT_MASK)


NAMES = [
    (OpenOption.OUTPUT | OpenOption.BROWSE, "MQOO_BROWSE, MQOO_OUTPUT"),
    (GetOption.COMPLETE_MSG, "MQGMO_COMPLETE_MSG"),
    (PutOption.PASS_ALL_CONTEXT | PutOption.SYNCPOINT, "MQPMO_SYNCPOINT, MQPMO_PASS_ALL_CONTEXT"),
    (CloseOption.REMOVE_SUB, "MQCO_REMOVE_SUB"),
    (SubscribeOption.CREATE, "MQSO_CREATE"),
]


@pytest.mark.parametrize(("options", "names"), NAMES, ids=[names for _, names in NAMES])
def test_options_are_written_by_their_names(options: OpenOption, names: str) -> None:
    assert names == option_names(options)
