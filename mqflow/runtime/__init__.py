"""The parts of mqflow that wait: sessions, units of work, listeners and workers. The package `policy` makes the decisions.

These parts get a `QueueManager` and a `World` as arguments. They contain no code for a particular queue manager or storage.

No module here imports `mqflow.embedded`, `mqflow.bindings` or `mqflow.app`.
"""
