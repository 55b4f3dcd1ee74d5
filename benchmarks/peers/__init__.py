"""`make bench-peers`: mqflow beside FastStream, taskiq, dramatiq and Celery, on their own servers, in one run."""
