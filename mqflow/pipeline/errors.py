"""What the pipeline can have wrong before and while Spark runs: what was asked, what was found, what to do. Knows no Spark."""

import re
from collections.abc import Sequence
from typing import Final

from mqflow.app.errors import ConfigurationError

__all__ = ("ConditionError", "JavaError", "OptionError", "PipelineError", "SinkError", "SparkMissingError")


class PipelineError(Exception):
    """The pipeline cannot go on. The sentence says what was found, and what to do."""


class JavaError(PipelineError):
    """There is no Java that Spark can run on."""


class SparkMissingError(PipelineError):
    """PySpark is not installed, or too old."""


class OptionError(ConfigurationError):
    """An option of a source or sink cannot be used. Never repeats the value of what may be a secret."""


_WHERE: Final = re.compile(r"^\[[A-Z_.]+\]\s*|\s*SQLSTATE: \w+.*", re.DOTALL)
"""What stands around the sentence in an error of Spark's parser: the error class, the state, the plan."""


class ConditionError(ConfigurationError):
    """A text is no condition on the columns of a table; says what Spark says of it, and which columns there are."""

    def __init__(self, condition: str, said: str, columns: Sequence[str]) -> None:
        sentence = _WHERE.sub("", said.strip()).split("\n", maxsplit=1)[0].rstrip(". ")
        super().__init__(f"{condition!r} is no condition on this table: {sentence}. Its columns are {', '.join(columns)}.")


class SinkError(PipelineError):
    """A sink cannot write exactly once what it was given, and wrote nothing of it."""
