"""What the bytes of a value mean, by the type of its column."""
