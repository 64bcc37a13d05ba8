"""One suite of promises, written once and run in both flavours on every stand."""
