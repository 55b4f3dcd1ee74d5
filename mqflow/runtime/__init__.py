"""Everything that waits: sessions, units of work, listeners and their workers, the requeuer. Decides nothing; asks `policy`.

Is handed a `QueueManager`, a clock, chance and threads; sees no storage and no particular queue manager.
"""
