"""The designs whose Spark is killed, their controls, and the queues they work on. Loads no Spark: the judge has none."""

__all__ = ("CONTROLS", "DESIGNS", "IN", "LANDED", "LANDERS", "NOT_EXACT", "OVERLOADED", "QUEUES", "REDRIVES", "TARGETS")

DESIGNS = ("journal", "delta", "drain", "sink")
"""A journal into Parquet and into Delta, a queue drained by a manifest, and a journal put on a queue."""
CONTROLS = ("careless", "naive")
"""What they would be without what makes them exact: a batch that is simply appended, and a unit of work that Spark commits."""
LANDERS = ("lander", "unmarked")
"""What feeds the journal, and what it would be without its marker."""
REDRIVES = ("redrive", "forgetful")
"""A table put back on a queue by `mqflow spark redrive`, and by one that forgets how far it was."""
NOT_EXACT = (*CONTROLS, "unmarked", "forgetful")
"""All that must lose or double."""
IN = "IN"
"""What is landed in the journal."""
LANDED = {"lander": IN, "unmarked": "UNMARKED"}
"""The queue of each lander."""
QUEUES = {"drain": "DRAINED", "naive": "NAIVE"}
"""The queue of each design that reads one itself."""
TARGETS = {"sink": "TARGET", "careless": "CARELESS", "redrive": "REDRIVEN", "forgetful": "FORGOTTEN"}
"""The queue of each design that puts."""
OVERLOADED = ("Python worker failed to connect back", "Python worker exited unexpectedly")
"""Of what a query may end by itself: Spark gives a Python ten seconds to start, and some we kill. Nothing is lost by it."""
