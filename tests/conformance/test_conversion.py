"""MQGMO_CONVERT at a queue manager; the tests of `mqi` check the conversion itself."""

from mqflow.mqi.options import Encoding, GetOption
from mqflow.mqi.reason_codes import Reason
from tests.conformance.programs import Program

CONVERT = GetOption.CONVERT | GetOption.NO_SYNCPOINT
LATIN_1, UTF_8, EBCDIC = 819, 1208, 1047


def test_text_is_converted_to_the_requested_character_set(queue: str, program: Program) -> None:
    program.put(queue, "Zürich".encode("latin-1"), format="MQSTR", ccsid=LATIN_1)
    got = program.got(queue, CONVERT, ccsid=UTF_8, encoding=Encoding.NATIVE)

    assert ("Zürich", UTF_8, 7, Reason.NONE) == (got.body.decode(), got.descriptor.ccsid, got.data_bytes, got.reason)


def test_without_the_option_nothing_is_converted(queue: str, program: Program) -> None:
    program.put(queue, b"abc", format="MQSTR", ccsid=EBCDIC)
    got = program.got(queue, ccsid=UTF_8)

    assert (b"abc", EBCDIC) == (got.body, got.descriptor.ccsid)


def test_a_message_that_cannot_be_converted_is_taken_unchanged_with_a_warning(queue: str, program: Program) -> None:
    program.put(queue, b"\xff\xfe", format="MQSTR", ccsid=UTF_8)
    got = program.got(queue, CONVERT, ccsid=LATIN_1)

    assert (b"\xff\xfe", UTF_8) == (got.body, got.descriptor.ccsid)
    assert Reason.NONE != got.reason
    assert program.get(queue) is None


def test_an_unknown_format_is_2110(queue: str, program: Program) -> None:
    program.put(queue, b"abc", format="MYFORMAT", ccsid=LATIN_1)
    got = program.got(queue, CONVERT, ccsid=UTF_8)

    assert (Reason.FORMAT_ERROR, b"abc") == (got.reason, got.body)


def test_a_browse_converts_too_and_leaves_the_message_alone(queue: str, program: Program) -> None:
    program.put(queue, "ü".encode("latin-1"), format="MQSTR", ccsid=LATIN_1)
    seen = program.got(queue, GetOption.BROWSE_FIRST | GetOption.CONVERT, ccsid=UTF_8)

    assert ("ü".encode(), "ü".encode("latin-1")) == (seen.body, program.got(queue).body)


def test_a_message_that_fits_only_unconverted_is_taken_unconverted(queue: str, program: Program) -> None:
    """2120."""
    program.put(queue, "üüü".encode("latin-1"), format="MQSTR", ccsid=LATIN_1)
    got = program.got(queue, CONVERT, ccsid=UTF_8, buffer_bytes_max=3)

    assert (Reason.CONVERTED_MSG_TOO_BIG, LATIN_1, 3) == (got.reason, got.descriptor.ccsid, len(got.body))
    assert program.get(queue) is None
