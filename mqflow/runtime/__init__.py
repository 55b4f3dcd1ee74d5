"""The parts that wait: sessions, units of work, listeners and their workers. `policy` makes the decisions.

The parts get a `QueueManager` and a `World` as arguments. They know no storage and no particular queue manager.

No module here imports `mqflow.embedded`, `mqflow.bindings` or `mqflow.app`.
"""
