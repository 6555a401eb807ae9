"""Events of the binary log, one at a time."""
