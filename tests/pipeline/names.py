"""The designs whose Spark is killed, their controls, and the queues they work on. Loads no Spark: the judge has none."""

__all__ = ("CONTROLS", "DESIGNS", "IN", "OVERLOADED", "QUEUES", "TARGETS")

DESIGNS = ("journal", "delta", "drain", "sink")
"""A journal into Parquet and into Delta, a queue drained by a manifest, and a journal put on a queue."""
CONTROLS = ("careless", "naive")
"""What they would be without what makes them exact: a batch that is simply appended, and a unit of work that Spark commits."""
IN = "IN"
"""What is landed in the journal."""
QUEUES = {"drain": "DRAINED", "naive": "NAIVE"}
"""The queue of each design that reads one itself."""
TARGETS = {"sink": "TARGET", "careless": "CARELESS"}
"""The queue of each design that puts."""
OVERLOADED = ("Python worker failed to connect back", "Python worker exited unexpectedly")
"""Of what a query may end by itself: Spark gives a Python ten seconds to start, and some we kill. Nothing is lost by it."""
