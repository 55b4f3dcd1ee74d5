"""The console in the browser: queues, failure groups, messages, and their redrive. Only its command and `mqflow run` import it.

No module here imports `mqflow.pipeline`, `mqflow.journal`, `mqflow.runtime.listener` or `sqlite3`.
"""
