"""What each link does, in terms of ports: read a log, transform, write a target that remembers the position."""
