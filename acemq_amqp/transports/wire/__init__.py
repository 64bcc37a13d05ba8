"""The wire under both drivers: content in frames, what was sent and what was delivered, as values.

The drivers run the conversation of the protocol; messages pass by them. Everything here is pure:
bytes in, events out; calls in, bytes out. Neither a socket nor a clock nor a loop is touched.
"""
