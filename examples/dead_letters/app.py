"""An application that looks after its own dead letters: a rules table, and a function where a table cannot look.

The rules see the descriptor and the MQDLH, the function the body too; functions are asked first.
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
    """Somebody has paid for it: whatever was in its way, it is not given up."""
    return b'"paid":true' in letter.data
