"""An application that handles its own dead letters by a rules table and by a Python function.

The rules of the table read the descriptor and the MQDLH; the function also reads the body. The handler asks the function first.
"""

from pathlib import Path

import msgspec

from mqflow import App, Context
from mqflow.policy.dead_letters.actions import DeadLetter
from mqflow.policy.dead_letters.rules import Action

app = App("embedded:./data?qmgr=QM1")
dead_letters = app.dead_letter_handler(Path(__file__).with_name("rules.tbl"), queue="DEAD.LETTERS", reload=True)


class Order(msgspec.Struct):
    number: int
    paid: bool = False


@app.listener("ORDERS.IN")
async def take(order: Order, ctx: Context) -> None:
    await ctx.put("ORDERS.TAKEN", order)


@dead_letters.rule(Action.RETRY, attempts=100)
def is_paid(letter: DeadLetter) -> bool:
    """Match each paid order: the handler retries it for every reason of a dead letter."""
    return b'"paid":true' in letter.data
