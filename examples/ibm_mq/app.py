"""An application on IBM MQ: only its URL differs. The settings have user and password; the URL must not have them.

$ pip install "mqflow[ibmmq]"
$ export MQFLOW_USER=app MQFLOW_PASSWORD_FILE=/run/secrets/mq
$ mqflow mqsc examples.ibm_mq.app:app --put ORDERS.TAKEN    # the definitions and authorities for the administrator
$ mqflow doctor                                             # checks the client library and the connection
$ mqflow run examples.ibm_mq.app:app
"""

import msgspec

from mqflow import App, Backout, Context

app = App("ibmmq://mq.example:1414/QM1?channel=APP.SVRCONN", name="orders")


class Order(msgspec.Struct):
    number: int


@app.listener("ORDERS.IN", concurrency=2, backout=Backout(threshold=3, queue="ORDERS.BOQ"))
async def take(order: Order, ctx: Context) -> None:
    await ctx.put("ORDERS.TAKEN", order)
