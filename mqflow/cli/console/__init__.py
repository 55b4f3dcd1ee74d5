"""The console in the browser: queues, failure groups, messages, and their redrive. Only its command and `mqflow run` import it.

The pages about the tables import the pipeline, and the command loads them only with `--tables`.

No module here imports `pyspark`, `mqflow.journal`, `mqflow.runtime.listener` or `sqlite3`.
"""
