"""Puts messages in the database transaction of an application, and relays them to a queue manager.

`Outbox.put` writes a row. `relayed` runs the relay, which puts the message of each committed row.
"""

from mqflow_outbox.relay import relayed
from mqflow_outbox.table import Outbox, Waiting

__all__ = ("Outbox", "Waiting", "relayed")
