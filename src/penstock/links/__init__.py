"""What each link does, in terms of ports."""
