"""The origin of a failure: the innermost frame of the application, and an exception that never leaves the process."""

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

import mqflow
from mqflow.events import Decided, Event, Settled
from mqflow.policy.poison.disposition import Completed, Deliver, Failed, Settlement, Undecodable, without_exception
from mqflow.policy.poison.failure_origin import FRAME_CHARS_MAX, Raised, calling_frame, first_of_application, raised_by
from mqflow.policy.poison.outcomes import Reject, UndecodableError, outcome_of

MQFLOW = str(Path(mqflow.__file__).parent / "runtime" / "call.py")
LIBRARY = "/venv/lib/python3.12/site-packages/stock/client.py"
MODULE = "/venv/lib/python3.12/site-packages/six.py"
ANYIO = "/venv/lib/python3.12/site-packages/anyio/to_thread.py"
PYTHON = str(Path(json.__file__))
HANDLER = "/home/alice/secret-project/orders/handlers.py"
DEPLOYED = "/venv/lib/python3.12/site-packages/orders/handlers.py"

CATCH = "def call(function):\n    try:\n        function()\n    except BaseException as error:\n        return error\n"
CALL = "def passes_on():\n    inner()\n"
RAISE = "def breaks():\n    raise ValueError('no stock')\n"


def call_through(*files: str) -> BaseException:
    """Return the exception that code of the last file raises. Each file calls the next one, and the first file catches."""
    inner: Callable[[], None] = function_of(files[-1], RAISE, "breaks")
    for file in reversed(files[1:-1]):
        inner = function_of(file, CALL, "passes_on", inner=inner)
    error: BaseException = function_of(files[0], CATCH, "call")(inner)
    return error


def function_of(file: str, source: str, name: str, **names: Any) -> Any:
    exec(compile(source, file, "exec"), names)  # noqa: S102 - a file name that this machine does not have
    return names[name]


@pytest.mark.parametrize(
    ("files", "expected"),
    [((MQFLOW, HANDLER), "orders/handlers.py:2 in breaks"),
     ((MQFLOW, HANDLER, LIBRARY), "orders/handlers.py:2 in passes_on"),
     ((MQFLOW, HANDLER, MODULE), "orders/handlers.py:2 in passes_on"),
     ((MQFLOW, HANDLER, PYTHON), "orders/handlers.py:2 in passes_on"),
     ((MQFLOW, HANDLER, MQFLOW), "orders/handlers.py:2 in passes_on"),
     ((MQFLOW, HANDLER, LIBRARY, "/srv/callbacks.py"), "srv/callbacks.py:2 in breaks"),
     ((MQFLOW, ANYIO, MQFLOW, DEPLOYED), "orders/handlers.py:2 in breaks"),
     ((MQFLOW, ANYIO, DEPLOYED, LIBRARY), "orders/handlers.py:2 in passes_on"),
     ((MQFLOW, ANYIO), ""),
     ((MQFLOW, PYTHON), ""),
     ((MQFLOW, "<stdin>"), "<stdin>:2 in breaks"),
     ((MQFLOW, "<frozen importlib._bootstrap>"), ""),
     ((MQFLOW, "/venv/lib/python3.12/site-packages"), "python3.12/site-packages:2 in breaks"),
     ((MQFLOW, "/srv/caf\udce9.py"), "srv/caf\\udce9.py:2 in breaks")],
    ids=["the handler itself",
         "a library that the handler calls",
         "a library of one file that the handler calls",
         "Python's library that the handler calls",
         "mqflow that the handler calls",
         "application code that a library calls",
         "an application that is an installed package",
         "a library that an installed application calls",
         "only libraries between mqflow and applications",
         "only Python's library",
         "code of a terminal",
         "an import",
         "a file with the name of a folder of packages",
         "a file name that is not UTF-8"],
)  # fmt: skip
def test_the_frame_is_the_innermost_of_the_application(files: tuple[str, ...], expected: str) -> None:
    assert expected == raised_by(call_through(*files)).frame


def test_the_first_frame_of_the_application_is_the_outermost() -> None:
    frames = [(MQFLOW, 1, "call"), (HANDLER, 2, "on_order"), (LIBRARY, 3, "stock"), (HANDLER, 4, "on_stock")]

    assert (1, None) == (first_of_application(frames), first_of_application(frames[:1]))


def test_an_exception_that_was_never_raised_has_no_frame() -> None:
    assert "" == raised_by(ValueError("no stock")).frame


def test_a_frame_has_at_most_200_characters() -> None:
    file = f"/srv/{'o' * 150}/{'h' * 150}.py"

    frame = raised_by(call_through(MQFLOW, file)).frame

    assert 200 == FRAME_CHARS_MAX == len(frame)


@given(st.text(st.characters(exclude_characters="\0"), min_size=1), st.lists(st.text("ab/.", max_size=300), max_size=3))
def test_no_file_name_makes_a_frame_long_or_unwritable(name: str, folders: list[str]) -> None:
    file = "/".join(["/srv", *folders, name])

    frame = raised_by(call_through(MQFLOW, file)).frame

    assert len(frame) <= FRAME_CHARS_MAX
    assert frame.encode()
    assert not frame.startswith("/srv/")


def test_a_group_gives_the_frame_of_its_first_exception_that_has_one() -> None:
    inner = BaseExceptionGroup("more", [call_through(MQFLOW, HANDLER)])
    group = BaseExceptionGroup("tasks", [ValueError("never raised"), inner])

    assert "orders/handlers.py:2 in breaks" == raised_by(group).frame


def test_a_group_without_frames_inside_gives_the_frame_that_raised_it() -> None:
    group = raised(ExceptionGroup("tasks", [ValueError("never raised")]))

    assert raised_by(group).frame.endswith("in raised")


def raised(error: Exception) -> Exception:
    try:
        raise error  # noqa: TRY301 - for its traceback
    except Exception as caught:  # noqa: BLE001 - any exception of the table
        return caught


@pytest.mark.parametrize(
    "error", [ValueError("no"), Reject("no"), UndecodableError("no"), ExceptionGroup("two", [ValueError("no")])]
)
def test_the_outcome_has_the_exception_itself(error: Exception) -> None:
    outcome = outcome_of(raised(error))

    assert isinstance(outcome, Failed | Undecodable)
    assert error is outcome.exception
    assert outcome.frame.endswith("in raised")


@pytest.mark.parametrize("error", [ValueError("no stock"), UndecodableError("no JSON")])
def test_no_serialization_contains_the_exception(error: Exception) -> None:
    outcome = outcome_of(raised(error))
    event: Event = Settled(queue="IN", listener="book", settlement=Settlement.BACKOUT, message_ids=(), outcome=outcome)

    read = msgspec.json.decode(msgspec.json.encode(event), type=Settled).outcome

    assert isinstance(outcome, Failed | Undecodable)
    for each in (read, copy.copy(outcome.raised), pickle.loads(pickle.dumps(outcome.raised)), without_exception(outcome)):  # noqa: S301 - our own bytes
        assert isinstance(each, Failed | Undecodable | Raised)
        assert each.exception is None
        assert outcome.frame == each.frame
    assert {"frame": outcome.frame} == msgspec.to_builtins(outcome)["raised"]


def test_an_outcome_of_an_older_ledger_has_no_frame() -> None:
    outcome = msgspec.json.decode(b'{"type":"Failed","error":"ValueError"}', type=Failed)

    assert Failed("ValueError") == outcome
    assert ("", None) == (outcome.frame, outcome.exception)


def test_outcomes_that_differ_only_in_their_origin_are_equal() -> None:
    outcome, again = outcome_of(raised(ValueError("no"))), outcome_of(raised(ValueError("no")))

    assert Failed("ValueError", "no") == outcome == again
    assert hash(Failed("ValueError", "no")) == hash(outcome)
    assert UNSET == Raised("here")
    assert "here" != Raised("here")
    assert outcome != outcome_of(raised(ValueError("yes")))


def test_only_failures_lose_something_without_their_exception() -> None:
    assert without_exception(None) is None
    assert Completed() == without_exception(Completed())
    decided = Failed("ValueError", "no", final=True)
    assert without_exception(decided) is decided


def test_a_failure_in_memory_is_found_by_the_garbage_collector() -> None:
    """Middleware that raises the exception again has the outcome in a frame of the traceback: a cycle."""
    import gc  # noqa: PLC0415 - this test alone
    import weakref  # noqa: PLC0415 - this test alone

    def raise_again() -> "weakref.ref[Payload]":
        payload = Payload()
        outcome = outcome_of(raised(ValueError("no")))
        assert isinstance(outcome, Failed)
        assert outcome.exception is not None
        try:
            raise outcome.exception
        except ValueError:
            return weakref.ref(payload)

    payload = raise_again()
    gc.collect()

    assert payload() is None


class Payload:
    pass


def test_a_decision_keeps_the_exception_of_its_outcome() -> None:
    error = raised(ValueError("no"))
    decided = Decided(
        queue="IN", message_id=b"", listener="book", backout_count=1, threshold=3, backout_requeue_queue="",
        threshold_source="", queue_source="", plan=(Deliver(),), outcome=outcome_of(error),
    )  # fmt: skip

    assert isinstance(decided.outcome, Failed)
    assert error is decided.outcome.exception


def test_the_origin_shows_its_frame_and_its_exception() -> None:
    error = call_through(HANDLER)

    assert f"Raised({raised_by(error).frame!r}, {error!r})" == repr(raised_by(error))


def test_the_calling_frame_is_the_innermost_of_the_application() -> None:
    lines = "def asks():\n    return library(ask)\n"
    library = function_of(LIBRARY, "def library(ask):\n    return ask()\n", "library")
    asks = function_of(HANDLER, lines, "asks", library=library, ask=calling_frame)

    assert "orders/handlers.py:2 in asks" == asks()
