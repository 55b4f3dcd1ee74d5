"""Listeners: workers, one unit of work at a time, and the move of poison messages. Knows no codec and no signature."""
