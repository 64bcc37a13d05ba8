"""What goes wrong in production, on purpose, with a ledger of every message."""
