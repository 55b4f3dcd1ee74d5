"""`to_mqsc` writes a queue as MQSC, and the MQSC defines the same queue."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import encode

from mqflow.embedded.mqsc import Command, parse, run, to_mqsc
from mqflow.embedded.mqsc.values import printable
from mqflow.embedded.mqsc.vocabulary import KINDS
from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES, AttributeSpec, QueueAttributes
from mqflow.mqi.options import QueueType
from tests.embedded.mqsc.definitions import Definitions

NAMES = st.text("ABCxyz019._/%", min_size=1, max_size=48)
BOOLEANS = {"put_inhibited", "get_inhibited", "depth_max_event", "depth_high_event", "depth_low_event", "distribution_lists"}


def values_of(spec: AttributeSpec) -> st.SearchStrategy[object]:
    if spec.object_name:
        return NAMES | st.just("")
    if spec.chars:
        # The queue manager takes printable text without blanks at its end.
        return st.text(max_size=spec.chars).map(printable).map(str.rstrip)
    choices: list[st.SearchStrategy[object]] = []
    if spec.words:
        as_kept: Callable[[int], int] = bool if spec.flag or spec.field in BOOLEANS else int
        choices.append(st.sampled_from([as_kept(number) for number in spec.words.values()]))
    if spec.low < spec.high:
        choices.append(st.integers(spec.low, spec.high))
    return st.one_of(choices)


@st.composite
def queues(draw: st.DrawFn) -> QueueAttributes:
    kind = draw(st.sampled_from(list(KINDS.values())))
    settings = {spec.field: draw(values_of(spec)) for spec in QUEUE_ATTRIBUTES if kind in spec.kinds and not spec.read_only}
    return QueueAttributes(name=draw(NAMES), kind=kind, **settings)  # type: ignore[arg-type]  # drawn by the table


@given(queues())
def test_a_queue_written_down_and_read_again_is_the_same(queue: QueueAttributes) -> None:
    administration = Definitions()

    results = run(to_mqsc(queue), administration)

    assert 0 == results.exit_code(strict=True), results.responses
    # Compared in encoded form, so that 1 and True differ.
    assert [encode(queue)] == [encode(found) for found in administration.queues()]


@given(queues())
def test_a_written_definition_does_not_depend_on_the_defaults_of_a_queue_manager(queue: QueueAttributes) -> None:
    administration = Definitions()
    for noun, kind in KINDS.items():
        name = f"SYSTEM.DEFAULT.{noun[1:]}.QUEUE"
        administration.define(QueueAttributes(name=name, kind=kind, definition_type=2, description="other", default_priority=9))

    run(to_mqsc(queue), administration)

    assert queue == administration.by_name[queue.name]


def test_every_attribute_has_a_line_of_its_own() -> None:
    lines = to_mqsc(QueueAttributes(name="A", kind=QueueType.ALIAS, target="B", description="it's")).splitlines()

    assert "DEFINE QALIAS('A') +" == lines[0]
    assert "   DESCR('it''s') +" in lines
    assert "   TARGET('B') +" in lines
    assert "   REPLACE" == lines[-1]


@pytest.mark.parametrize("text", ["two\nlines", "a\ttab", "end\r\n"])
def test_line_ends_in_a_description_become_blanks(text: str) -> None:
    [command] = parse(to_mqsc(QueueAttributes(name="A", description=text)))

    assert isinstance(command, Command)
    assert {"description": printable(text).rstrip()}.items() <= getattr(command.action, "values", {}).items()
