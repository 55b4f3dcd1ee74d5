"""The parts that wait: sessions, units of work, listeners and their workers. `policy` makes the decisions.

The parts get a `QueueManager` and a `World` as arguments. They know no storage and no particular queue manager.

Must not import `mqflow.embedded`, `mqflow.bindings` or `mqflow.app`.
"""
