"""The kinds of objects that a queue manager knows, and the objects that it creates itself. It holds data only."""
