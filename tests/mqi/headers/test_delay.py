"""The header of a staged message: a written header is read back, and other bytes are refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.mqi.errors import HeaderError
from mqflow.mqi.headers.delay import DELAY_HEADER_BYTES, FORMAT, DelayHeader, parse, to_bytes
from mqflow.mqi.reason_codes import Reason

longs = st.integers(-(2**31), 2**31 - 1)
moments = st.integers(0, 2**52)
names = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/%", max_size=48)
identifiers = st.binary(min_size=24, max_size=24)
header_strategy = st.builds(
    DelayHeader, target_type=longs, target=names, target_queue_manager=names, subscription_id=identifiers,
    correlation_id=identifiers, report=longs, message_flags=longs, expiry_tenths=longs,
    format=st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", max_size=8), encoding=longs, ccsid=longs, delay_ms=moments,
    retry_ms=moments, sent_wall_ms=moments, sent_monotonic_ms=moments, monotonic_epoch=st.binary(min_size=16, max_size=16),
)  # fmt: skip


@given(header_strategy, st.binary(max_size=20))
def test_a_written_header_is_read_back_with_any_data_behind_it(header: DelayHeader, body: bytes) -> None:
    data = to_bytes(header)

    assert header == parse(data + body)
    assert DELAY_HEADER_BYTES == len(data)


@pytest.mark.parametrize(
    "forged",
    [
        {"format": FORMAT},
        {"delay_ms": -1},
        {"delay_ms": 2**62},
        {"retry_ms": 2**62},
        {"sent_wall_ms": -(2**63)},
        {"sent_monotonic_ms": -(2**63)},
        {"backout_count": -1},
    ],
    ids=repr,
)
def test_a_header_that_no_mqflow_writes_is_refused(forged: dict[str, Any]) -> None:
    """Each user with authority to put on the staging queue can write a header, for example one with a staged message inside."""
    data = to_bytes(replace(DelayHeader(target="Q", delay_ms=1, sent_wall_ms=1), **forged))

    with pytest.raises(HeaderError, match="mqflow never writes"):
        parse(data)


@given(st.binary(max_size=300))
def test_data_that_are_no_header_are_refused_with_2142(data: bytes) -> None:
    with pytest.raises(HeaderError) as refused:
        parse(data)

    assert Reason.HEADER_ERROR == refused.value.reason


def test_a_header_of_another_version_is_refused() -> None:
    data = bytearray(to_bytes(DelayHeader(target="Q", delay_ms=1, sent_wall_ms=1)))
    data[7] = 2

    with pytest.raises(HeaderError, match="another mqflow staged it"):
        parse(bytes(data))


def test_the_header_is_a_multiple_of_four_bytes_and_its_format_is_not_one_of_ibms() -> None:
    assert 0 == DELAY_HEADER_BYTES % 4
    assert not FORMAT.startswith("MQ")
    assert len(FORMAT) <= 8
