"""stream-pymqi: a broker with a thread for each queue."""

import threading

import pymqi
from stream_pymqi import IbmMqBroker, StreamConfig

config = StreamConfig("localhost", 1414, "DEV.APP.SVRCONN", "QM1", "DEV.QUEUE.1", user="app", password="passw0rd")
broker = IbmMqBroker(config=config)
seen: dict[str, str] = {}
done = threading.Event()


@broker.queue("DEV.QUEUE.1")
def first(message) -> None:
    seen["first"] = message.to_string()
    if len(seen) == 2:
        done.set()


@broker.queue("DEV.QUEUE.2")
def second(message) -> None:
    seen["second"] = message.to_string()
    if len(seen) == 2:
        done.set()


broker.start()
manager = pymqi.connect("QM1", "DEV.APP.SVRCONN", "localhost(1414)", "app", "passw0rd")
for name in ("DEV.QUEUE.1", "DEV.QUEUE.2"):
    queue = pymqi.Queue(manager, name)
    queue.put(f"for {name}".encode())
    queue.close()
assert done.wait(20), seen
assert seen == {"first": "for DEV.QUEUE.1", "second": "for DEV.QUEUE.2"}, seen
