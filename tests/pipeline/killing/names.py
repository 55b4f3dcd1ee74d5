"""The designs under test, their controls, and their queues. Loads no Spark, because the campaign's process has none."""

__all__ = ("CONTROLS", "DESIGNS", "IN", "LANDED", "LANDERS", "NOT_EXACT", "OVERLOADED", "QUEUES", "REDRIVES", "TARGETS")

DESIGNS = ("journal", "delta", "drain", "sink")
"""A journal into Parquet and into Delta, a queue drained by a manifest, and a journal put on a queue."""
CONTROLS = ("careless", "naive")
"""The designs without their safeguard: a batch that is simply appended, and a unit of work that Spark commits."""
LANDERS = ("lander", "unmarked")
"""The lander of the journal, and a lander without a marker."""
REDRIVES = ("redrive", "forgetful")
"""`mqflow spark redrive` from a table to a queue, and a redrive that forgets its position."""
NOT_EXACT = (*CONTROLS, "unmarked", "forgetful")
"""The controls, which must lose or double messages."""
IN = "IN"
"""The queue that the lander lands."""
LANDED = {"lander": IN, "unmarked": "UNMARKED"}
"""The queue of each lander."""
QUEUES = {"drain": "DRAINED", "naive": "NAIVE"}
"""The queue of each design that reads a queue."""
TARGETS = {"sink": "TARGET", "careless": "CARELESS", "redrive": "REDRIVEN", "forgetful": "FORGOTTEN"}
"""The queue of each design that puts."""
OVERLOADED = ("Python worker failed to connect back", "Python worker exited unexpectedly")
"""Errors with which a query can end by itself: Spark gives a Python ten seconds to start, and the campaign kills some."""
