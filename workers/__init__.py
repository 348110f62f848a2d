"""The write side: pull → parse → enrich → embed → store."""
