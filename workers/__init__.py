"""Index repositories (the write side): pull → parse → enrich → embed → store."""
