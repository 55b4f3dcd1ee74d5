"""The embedded queue manager: MQ's rules in one process. It keeps its data in SQLite files and needs no installation of MQ.

`state` holds queues, units of work, cursors and waits in memory, under one lock. `storage` keeps them on disk: one writer
thread owns the SQLite connection. `wire` serves the queue manager; `mqsc` and `pcf` administer it. This package implements
`mqflow.verbs` and knows nothing of the runtime.

No module here imports `mqflow.app`, `mqflow.runtime`, `anyio` or `asyncio`.
"""
