"""The embedded queue manager: MQ's rules in one process, durable on SQLite, nothing to install.

A state machine in memory under one lock (queues, units of work, cursors, waits), and one writer thread with the one SQLite
connection behind `store`. Offers the seam of `mqflow.verbs`; sees nothing of the runtime. How it is kept is `storage`, how
it is served is `wire`, and how it is administered `mqsc` and `pcf`.
"""
