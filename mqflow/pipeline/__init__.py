"""The data pipeline on Spark: journals and queues as sources, queues and Delta tables as sinks, and the tables between them.

Importing this package loads no Spark; `register` and `spark_session` do. Needs `mqflow[spark]`, and Java 17 except for Spark
Connect.

No module here imports `mqflow.embedded`, `mqflow.runtime`, `mqflow.app.handlers` or `mqflow.cli`.
"""

from mqflow.pipeline.errors import JavaError, OptionError, PipelineError, SinkError, SparkMissingError
from mqflow.pipeline.session import SOURCES, register, spark_session

__all__ = (
    "SOURCES",
    "JavaError",
    "OptionError",
    "PipelineError",
    "SinkError",
    "SparkMissingError",
    "register",
    "spark_session",
)
