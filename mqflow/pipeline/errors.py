"""What the pipeline can have wrong before and while Spark runs: what was asked, what was found, what to do. Knows no Spark."""

from mqflow.app.errors import ConfigurationError

__all__ = ("JavaError", "OptionError", "PipelineError", "SinkError", "SparkMissingError")


class PipelineError(Exception):
    """The pipeline cannot go on. The sentence says what was found, and what to do."""


class JavaError(PipelineError):
    """There is no Java that Spark can run on."""


class SparkMissingError(PipelineError):
    """PySpark is not installed, or too old."""


class OptionError(ConfigurationError):
    """An option of a source or sink cannot be used. Never repeats the value of what may be a secret."""


class SinkError(PipelineError):
    """A sink cannot write exactly once what it was given, and wrote nothing of it."""
