"""What a newcomer runs: the demo, the examples, and what the README shows."""
