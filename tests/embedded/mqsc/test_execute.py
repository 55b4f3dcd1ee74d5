"""What commands do to a queue manager's definitions, and what is said about it."""

from mqflow.embedded.mqsc import Response, Verdict, run
from tests.embedded.mqsc.definitions import Definitions


def one(script: str, administration: Definitions) -> Response:
    [response] = run(script, administration).responses
    return response


def test_a_defined_queue_has_what_the_command_says(administration: Definitions) -> None:
    response = one("DEFINE QLOCAL('ORDERS.IN') BOTHRESH(3) BOQNAME('ORDERS.BOQ')", administration)

    assert response.verdict is Verdict.DONE
    queue = administration.by_name["ORDERS.IN"]
    assert (3, "ORDERS.BOQ") == (queue.backout_threshold, queue.backout_requeue_queue)
