"""The two flavours: what the core's ports are on an event loop, and on threads."""
