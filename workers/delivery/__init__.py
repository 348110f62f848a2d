"""How work reaches a stage: the Celery app, messages, batches, claims, retries, dead letters."""
