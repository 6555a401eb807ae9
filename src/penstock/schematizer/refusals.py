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
    FOREIGN_ORIGIN = ("foreign_origin", 403, 403)
    CHANGED_MEANWHILE = ("changed_meanwhile", 409, 40901)
    UNKNOWN_TOPIC = ("unknown_topic", 404, 404)
    UNKNOWN_NAMESPACE = ("unknown_namespace", 404, 404)
    UNKNOWN_SOURCE = ("unknown_source", 404, 404)
    UNKNOWN_ELEMENT = ("unknown_element", 404, 404)
    UNKNOWN_NOTE = ("unknown_note", 404, 404)
    UNKNOWN_REFRESH = ("unknown_refresh", 404, 404)
    UNKNOWN_DATA_TARGET = ("unknown_data_target", 404, 404)
    UNKNOWN_CONSUMER_GROUP = ("unknown_consumer_group", 404, 404)
    UNKNOWN_DATA_SOURCE = ("unknown_data_source", 404, 404)
    UNKNOWN_PRODUCER = ("unknown_producer", 404, 404)
    UNKNOWN_CONSUMER = ("unknown_consumer", 404, 404)
    UNKNOWN_META_ATTRIBUTE = ("unknown_meta_attribute", 404, 404)
    UNKNOWN_SUBJECT = ("unknown_subject", 404, 40401)
    UNKNOWN_VERSION = ("unknown_version", 404, 40402)
    UNKNOWN_SCHEMA = ("unknown_schema", 404, 40403)
    SUBJECT_DELETED = ("subject_deleted", 404, 40404)
    SUBJECT_NOT_DELETED = ("subject_not_deleted", 404, 40405)
    VERSION_DELETED = ("version_deleted", 404, 40406)
    VERSION_NOT_DELETED = ("version_not_deleted", 404, 40407)
    NO_LEVEL_OF_ITS_OWN = ("no_level_of_its_own", 404, 40408)
    NO_MODE_OF_ITS_OWN = ("no_mode_of_its_own", 404, 40409)
    UNKNOWN_ASSOCIATION = ("unknown_association", 404, 40410)
    UNAUTHENTICATED = ("unauthenticated", 401, 401)
    FORBIDDEN = ("forbidden", 403, 40301)
    REQUEST_TIMEOUT = ("request_timeout", 408, 408)
    INCOMPATIBLE_SCHEMA = ("incompatible_schema", 409, 409)
    ASSOCIATION_EXISTS = ("association_exists", 409, 40903)
    SUBJECT_ASSOCIATED = ("subject_associated", 409, 40904)
    SUBJECT_OWNED = ("subject_owned", 409, 40905)
    NO_SCHEMA_TO_ASSOCIATE = ("no_schema_to_associate", 409, 40907)
    ASSOCIATION_FROZEN = ("association_frozen", 409, 40908)
    ILLEGAL_TRANSITION = ("illegal_transition", 409, 40920)
    STILL_USED = ("still_used", 409, 40921)
    BODY_TOO_LARGE = ("body_too_large", 413, 413)
    URL_TOO_LONG = ("url_too_long", 414, 414)
    INVALID_REQUEST = ("invalid_request", 422, 422)
    INVALID_SCHEMA = ("invalid_schema", 422, 42201)
    INVALID_VERSION = ("invalid_version", 422, 42202)
    INVALID_LEVEL = ("invalid_level", 422, 42203)
    INVALID_MODE = ("invalid_mode", 422, 42204)
    NOT_PERMITTED = ("not_permitted", 422, 42205)
    REFERENCED = ("referenced", 422, 42206)
    INVALID_SUBJECT = ("invalid_subject", 422, 42208)
    INVALID_RULES = ("invalid_rules", 422, 42210)
    INVALID_ASSOCIATION = ("invalid_association", 422, 42212)
    INVALID_TABLE = ("invalid_table", 422, 42220)
    INVALID_EMAIL = ("invalid_email", 422, 42221)
    INVALID_CURSOR = ("invalid_cursor", 422, 42222)
    OWNER_REQUIRED = ("owner_required", 422, 42223)
    DOCS_REQUIRED = ("docs_required", 422, 42224)
    INVALID_MIGRATION = ("invalid_migration", 422, 42225)
    TOO_MANY_REQUESTS = ("too_many_requests", 429, 429)
    HEADERS_TOO_LARGE = ("headers_too_large", 431, 431)
    DATABASE_UNAVAILABLE = ("database_unavailable", 503, 50301)
    BUSY = ("busy", 503, 503)

    def __init__(self, word: str, status: int, number: int) -> None:
        """Name the three parts of the value."""
        self.word = word
        self.status = status
        self.number = number


class RefusedError(PenstockError):
    """The registry does not do what it was asked; `retry_after` says in how many seconds it might, 0.0 for never."""

    error_code = "registry-refused"

    def __init__(self, code: Code, message: str, hint: str, retry_after: float = 0.0) -> None:
        """Say which kind of refusal it is, what was wrong and what to do."""
        super().__init__(message, hint)
        self.args = (code, message, hint, retry_after)
        self.code = code
        self.retry_after = retry_after
