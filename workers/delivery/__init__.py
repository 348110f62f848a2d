"""The delivery of work to stages: Celery app, messages, batches, claims, retries, dead letters."""
