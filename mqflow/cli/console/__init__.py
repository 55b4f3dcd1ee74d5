"""The console in the browser: queues, failure groups, messages and redrive. Only `mqflow console` and `mqflow run` import it.

The pages about the tables import the pipeline, and are loaded only with the option `--tables`.

No module here imports `pyspark`, `mqflow.journal`, `mqflow.runtime.listener` or `sqlite3`.
"""
