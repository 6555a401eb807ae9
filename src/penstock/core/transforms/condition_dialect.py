"""SQL as a filter's condition is written in: names in backticks or double quotes, a quote in quotes doubled."""

from typing import ClassVar

from sqlglot.dialects.dialect import Dialect
from sqlglot.tokens import Tokenizer as StandardTokenizer


class ConditionDialect(Dialect):
    """What both MySQL's users and PostgreSQL's write."""

    class Tokenizer(StandardTokenizer):
        """Splits a condition into words."""

        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        QUOTES: ClassVar[list[str | tuple[str, str]]] = ["'"]
        STRING_ESCAPES: ClassVar[list[str]] = ["'"]
