"""Windows over a log, as values and decisions: nothing here waits, reads or writes."""
