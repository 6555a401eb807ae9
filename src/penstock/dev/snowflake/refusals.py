"""What is said of a statement that is not taken."""


class RefusedError(Exception):
    """Snowflake, or this stand-in, does not take a statement."""
