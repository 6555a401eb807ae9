"""The face that Confluent's clients know."""
