"""docs/poison-messages.md agrees with the functions: its table is compared with them, its example runs."""

import re
from pathlib import Path

import pytest

from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Persistence, Report
from mqflow.policy.poison.backout import BEHAVIOURS, decide, dispose
from mqflow.policy.poison.disposition import Behaviour, DeadLetter, Deliver, Discard, Return

PAGE = (Path(__file__).parents[3] / "docs" / "poison-messages.md").read_text("utf-8")
NO_THRESHOLD = QueueAttributes(name="Q")


def threshold_zero(behaviour: Behaviour) -> str:
    if not BEHAVIOURS[behaviour].automatic:
        return "never poison, whatever `BOTHRESH` is"
    delivered = decide(MessageDescriptor(backout_count=1), NO_THRESHOLD, "", behaviour) == (Deliver(),)
    return "never poison" if delivered else "poison as with `BOTHRESH(1)`"


def asked_to_discard(behaviour: Behaviour) -> str:
    first = dispose(MessageDescriptor(report=Report.DISCARD_MSG), NO_THRESHOLD, "DLQ", behaviour)[0]
    return {Discard: "discarded", DeadLetter: "dead-lettered"}[type(first)]


def not_taken(behaviour: Behaviour, persistence: Persistence) -> str:
    match dispose(MessageDescriptor(persistence=persistence), NO_THRESHOLD, "", behaviour)[-1]:
        case Discard():
            return "discarded"
        case Return(stop_delivery=True):
            return "stays, delivery stops"
        case _:
            return "stays, listener pauses"


@pytest.mark.parametrize("behaviour", Behaviour)
def test_the_page_and_the_functions_agree_about_each_behaviour(behaviour: Behaviour) -> None:
    cells = (
        f"`{behaviour.value}`",
        threshold_zero(behaviour),
        asked_to_discard(behaviour),
        not_taken(behaviour, Persistence.PERSISTENT),
        not_taken(behaviour, Persistence.NOT_PERSISTENT),
        "if asked for" if BEHAVIOURS[behaviour].reports else "no",
    )

    assert f"| {' | '.join(cells)} |" in PAGE.splitlines()


def test_the_page_s_example_runs() -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)

    exec(compile(example, "poison-messages.md", "exec"), {})  # noqa: S102 - our own page; its asserts are the test
