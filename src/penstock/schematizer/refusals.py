"""Why the registry says no: one list of codes, which never change their meaning.

Every refusal has a word (`code`), which our own clients go by, and a number
(`error_code`), which Confluent's clients go by: theirs where they have one
(Schema Registry API reference, "Errors"), else the HTTP status.
"""

from __future__ import annotations

from enum import Enum

from penstock.core.errors import PenstockError


class Code(Enum):
    """A kind of refusal: its word, its HTTP status and its number."""

    UNKNOWN_ROUTE = ("unknown_route", 404, 404)
    METHOD_NOT_ALLOWED = ("method_not_allowed", 405, 405)
    UNKNOWN_TOPIC = ("unknown_topic", 404, 404)
    UNKNOWN_SUBJECT = ("unknown_subject", 404, 40401)
    UNKNOWN_VERSION = ("unknown_version", 404, 40402)
    UNKNOWN_SCHEMA = ("unknown_schema", 404, 40403)
    NO_LEVEL_OF_ITS_OWN = ("no_level_of_its_own", 404, 40408)
    INCOMPATIBLE_SCHEMA = ("incompatible_schema", 409, 409)
    INVALID_REQUEST = ("invalid_request", 422, 422)
    INVALID_SCHEMA = ("invalid_schema", 422, 42201)
    INVALID_VERSION = ("invalid_version", 422, 42202)
    INVALID_LEVEL = ("invalid_level", 422, 42203)
    INVALID_TABLE = ("invalid_table", 422, 42220)
    DATABASE_UNAVAILABLE = ("database_unavailable", 503, 50301)

    def __init__(self, word: str, status: int, number: int) -> None:
        """Name the three parts of the value."""
        self.word = word
        self.status = status
        self.number = number


class RefusedError(PenstockError):
    """The registry does not do what it was asked."""

    def __init__(self, code: Code, message: str, hint: str) -> None:
        """Say which kind of refusal it is, what was wrong and what to do."""
        super().__init__(message, hint)
        self.args = (code, message, hint)
        self.code = code
