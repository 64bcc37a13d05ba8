"""Event logs: what was pushed stays, and reading is a cursor for each group."""
