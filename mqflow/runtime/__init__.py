"""The parts that wait: sessions, units of work, listeners and their workers, the requeuer. Decides nothing; asks `policy`.

Gets a `QueueManager` and a `World` as arguments; knows no storage and no particular queue manager.
"""
