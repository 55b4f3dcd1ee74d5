"""The kinds of objects a queue manager knows, and the objects that it defines itself. Data only."""
