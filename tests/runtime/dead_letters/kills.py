"""Kills a DLQ handler again and again, at a call that the seed selects. The handler has its own queue manager.

Run as a program: ``python -m tests.runtime.dead_letters.kills FOLDER SEED LIVES``. Each life is a forked child; the dead
letters are put before the first life. `tests.runtime.dead_letters.test_kill` judges the result.
"""

import random
import sys
from pathlib import Path

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Persistence
from mqflow.policy.dead_letters.actions import matchers
from mqflow.policy.dead_letters.rules import RulesTable, parse
from mqflow.runtime.dead_letters.dead_letter_handler import DeadLetterHandler, Rules, run_to_end
from mqflow.runtime.hooks import Broadcast
from mqflow.testing.dead_letters import put_dead_letter
from mqflow.world import SYSTEM_CLOCK
from tests.runtime.mortal import Death, in_a_child, mortal

MESSAGES = 60
DLQ, IN, OTHER = "DLQ", "ORDERS.IN", "OTHER"
RULES = f"WAIT(NO)\nDESTQ(NOBODY) ACTION(RETRY) RETRY(2)\nREASON(2051) ACTION(FWD) FWDQ({OTHER})\nACTION(RETRY)"


def _fill(folder: Path) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder)) as queue_manager:
        for name in (DLQ, IN, OTHER):
            queue_manager.administration.define(QueueAttributes(name=name))
        connection = queue_manager.connect()
        for number in range(MESSAGES):
            queue, reason = ((IN, 2053), (IN, 2051), ("NOBODY", 2085))[number % 3]
            descriptor = MessageDescriptor(persistence=Persistence.PERSISTENT)
            put_dead_letter(connection, DLQ, b"%d" % number, reason=reason, queue=queue, descriptor=descriptor)


def _live(folder: Path, dies_at: int) -> None:
    table = parse(RULES)
    assert isinstance(table, RulesTable)
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder)) as queue_manager:
        connection = mortal(queue_manager.connect(), Death(dies_at))
        rules = Rules(table.control, matchers(table.rules))
        handler = DeadLetterHandler(rules, DLQ, clock=SYSTEM_CLOCK, broadcast=Broadcast(()))
        handler.open(connection)
        run_to_end(handler, connection)
        connection.disconnect()


def main(where: str, seed: str, lives: str) -> None:
    folder, chance = Path(where), random.Random(seed)  # noqa: S311 - the same seed must give the same kills
    assert in_a_child(lambda: _fill(folder))
    for life in range(int(lives)):
        dies_at = chance.randint(1, 60)
        ended = in_a_child(lambda dies_at=dies_at: _live(folder, dies_at))  # type: ignore[misc]  # mypy cannot infer the default
        print("ended" if ended else "killed", life)  # noqa: T201 - the output of the program
    assert in_a_child(lambda: _live(folder, 1 << 30))


if __name__ == "__main__":
    main(*sys.argv[1:])
