"""The errors of the pipeline, before and while Spark runs. Each error says what was found and what to do.

This file imports no Spark.
"""

import re
from collections.abc import Sequence
from typing import Final

from mqflow.app.errors import ConfigurationError

__all__ = ("ConditionError", "JavaError", "OptionError", "PipelineError", "SinkError", "SparkMissingError")


class PipelineError(Exception):
    """The pipeline cannot continue. The message says what was found, and what to do."""


class JavaError(PipelineError):
    """There is no Java that Spark can run on."""


class SparkMissingError(PipelineError):
    """PySpark is not installed, or too old."""


class OptionError(ConfigurationError):
    """An option of a source or sink cannot be used. The message never repeats a value that can be a secret."""


_WHERE: Final = re.compile(r"^\[[A-Z_.]+\]\s*|\s*SQLSTATE: \w+.*", re.DOTALL)
"""The parts around the sentence in an error of Spark's parser: the error class, the state, the plan."""


class ConditionError(ConfigurationError):
    """A text is not a condition on the columns of a table. The message has Spark's sentence, and the columns of the table."""

    def __init__(self, condition: str, said: str, columns: Sequence[str]) -> None:
        sentence = _WHERE.sub("", said.strip()).split("\n", maxsplit=1)[0].rstrip(". ")
        super().__init__(f"{condition!r} is not a condition on this table: {sentence}. Its columns are {', '.join(columns)}.")


class SinkError(PipelineError):
    """A sink cannot write its rows exactly once, and wrote none of them."""
