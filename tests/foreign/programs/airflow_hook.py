"""The IBM MQ provider of Apache Airflow: its hook puts a message, and its trigger waits for it."""

import asyncio
import json
import os
import tempfile

os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp()
os.environ["AIRFLOW_CONN_MQ_DEFAULT"] = json.dumps(
    {"conn_type": "ibmmq", "host": "localhost", "port": 1414, "login": "app", "password": "passw0rd",
     "extra": {"queue_manager": "QM1", "channel": "DEV.APP.SVRCONN"}},
)  # fmt: skip

# Airflow reads the environment at its import.
from airflow.providers.ibm.mq.hooks.mq import IBMMQHook
from airflow.providers.ibm.mq.triggers.mq import AwaitMessageTrigger


async def main() -> None:
    waiting = AwaitMessageTrigger("mq_default", "DEV.QUEUE.1", poll_interval=1).run()
    await IBMMQHook("mq_default").aproduce("DEV.QUEUE.1", "Grüße")
    event = await asyncio.wait_for(anext(waiting), 20)
    assert event.payload == "Grüße", event


asyncio.run(main())
