"""Stores in SQL databases: one table of dialects, every statement by name, one file a store."""
