"""The options of sources and sinks, which accept no secret."""

from typing import Any

import pyarrow as pa
import pytest

from mqflow.pipeline import OptionError
from mqflow.pipeline.payload import limited, payload_of
from mqflow.pipeline.spark_options import options_of

KNOWN = ("path", "maxRowsPerTrigger", "lanes", "pushdown")


@pytest.mark.parametrize(
    "name", ["password", "userName", "mqToken", "keyRepositoryPassword", "credentials", "client_secret", "PWD"]
)
def test_an_option_that_may_say_a_secret_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(OptionError, match="Spark shows options in plans") as caught:
        options_of("mqflow_mq", {name: "hunter2"}, KNOWN)

    assert "hunter2" not in str(caught.value)


def test_a_misspelt_option_is_refused_because_a_limit_that_is_not_understood_is_no_limit() -> None:
    with pytest.raises(OptionError, match=r"'maxrowpertrigger' is not known.*Did you mean maxRowsPerTrigger"):
        options_of("mqflow_journal", {"maxRowPerTrigger": "5"}, KNOWN)


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_a_text_that_is_not_a_positive_whole_number_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="not a whole number of at least 1"):
        options_of("s", {"maxRowsPerTrigger": text}, KNOWN).number("maxRowsPerTrigger", None)


def test_options_are_found_in_any_case_with_their_defaults() -> None:
    options = options_of("s", {"MAXROWSPERTRIGGER": "1_000", "lanes": "A, B,", "pushdown": "true"}, KNOWN)

    assert 1_000 == options.number("maxRowsPerTrigger", None)
    assert ("A", "B") == options.names("lanes")
    assert options.boolean("pushdown", default=False)
    with pytest.raises(OptionError, match="s needs the option 'path'"):
        options.text("path")


BODIES = pa.record_batch(
    {
        "body": pa.array([b"12345", b"12", None], pa.binary()),
        "body_sha256": pa.array([b"h1", b"h2", None], pa.binary()),
        "body_truncated": pa.array([False, False, None], pa.bool_()),
    }
)


@pytest.mark.parametrize(
    ("payload", "body", "hashes", "truncated"),
    [
        ("full", [b"12345", b"12", None], [b"h1", b"h2", None], [False, False, None]),
        ("head:2", [b"12", b"12", None], [b"h1", b"h2", None], [True, False, None]),
        ("head:0", [b"", b"", None], [b"h1", b"h2", None], [True, True, None]),
        ("hash", [None] * 3, [b"h1", b"h2", None], [True, True, None]),
        ("none", [None] * 3, [None] * 3, [True, True, None]),
    ],
)
def test_a_payload_is_kept_as_far_as_was_asked_and_says_so(
    payload: str, body: list[bytes | None], hashes: list[bytes | None], truncated: list[bool | None]
) -> None:
    found = limited(BODIES, payload_of(payload))

    assert (body, hashes, truncated) == tuple(found.column(at).to_pylist() for at in range(3))
    assert BODIES.schema == found.schema


@pytest.mark.parametrize(
    ("payload", "said", "properties"),
    [
        ("full", ["no customer 4711", None], [[("usr.customer", "4711")], None]),
        ("head:4", ["no c", None], [None, None]),
        ("hash", [None, None], [None, None]),
        ("none", [None, None], [None, None]),
    ],
)
def test_what_else_says_something_of_the_data_goes_with_it(payload: str, said: list[Any], properties: list[Any]) -> None:
    """Properties of an MQRFH2 are message data, and exceptions quote message data."""
    batch = pa.record_batch(
        {
            "exc_message": pa.array(["no customer 4711", None], pa.string()),
            "rfh2": pa.array([[("usr.customer", "4711")], None], pa.map_(pa.string(), pa.string())),
        }
    )

    found = limited(batch, payload_of(payload))

    assert (said, properties) == (found.column("exc_message").to_pylist(), found.column("rfh2").to_pylist())
    assert batch.schema == found.schema


@pytest.mark.parametrize("text", ["heads:3", "head", "head:-1", "head:x", "", "FULL", "head:" + "9" * 5_000])
def test_another_payload_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(OptionError, match="head:N"):
        payload_of(text)
