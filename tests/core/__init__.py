"""The core's decisions as tables, and the core itself where there is no event loop."""
