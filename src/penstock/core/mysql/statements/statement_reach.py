"""What a statement that changes rows may reach beyond the tables that it writes to, as far as its text tells.

Source: MySQL Reference Manual, "Function Name Parsing and Resolution" and "Keywords and Reserved Words";
MariaDB Knowledge Base, "Built-in Functions" and "Reserved Words".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.mysql.statements.ddl import WRITE_MODIFIERS, seek_verb
from penstock.core.mysql.statements.sql_tokens import TokenKind, TokenReader
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.core.mysql.statements.sql_tokens import Token

IS_VIEW: Final = "VIEW"
"""What a source says of a name that CREATE TABLE IF NOT EXISTS has found to be a view's."""
KEYWORDS = frozenset({
    "ALL", "AND", "AS", "BETWEEN", "BINARY", "BY", "CASE", "CHAR", "DECIMAL", "DISTINCT", "DIV", "ELSE", "EXISTS",
    "FROM", "HAVING", "IN", "INDEX", "INTERVAL", "IS", "JOIN", "KEY", "LIKE", "LINES", "MATCH", "MOD", "NOT", "ON",
    "OR", "OVER", "PARTITION", "REGEXP", "RLIKE", "SELECT", "SET", "THEN", "UNION", "USING", "VALUES", "VARCHAR",
    "WHEN", "WHERE", "XOR"
})  # fmt: skip
"""Words that may stand before a parenthesis; MySQL and MariaDB reserve each, so that it can be no function's name."""
BUILT_IN = frozenset({
    "ABS", "ACOS", "ADDDATE", "ADDTIME", "ASCII", "ASIN", "ATAN", "ATAN2", "AVG", "BIN", "BIT_AND", "BIT_COUNT",
    "BIT_LENGTH", "BIT_OR", "BIT_XOR", "CAST", "CEIL", "CEILING", "CHAR_LENGTH", "CHARACTER_LENGTH", "CHARSET",
    "COALESCE", "COLLATION", "CONCAT", "CONCAT_WS", "CONNECTION_ID", "CONV", "CONVERT", "CONVERT_TZ", "COS", "COT",
    "COUNT", "CRC32", "CURDATE", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "CURTIME",
    "DATABASE", "DATE", "DATEDIFF", "DATE_ADD", "DATE_FORMAT", "DATE_SUB", "DAY", "DAYNAME", "DAYOFMONTH",
    "DAYOFWEEK", "DAYOFYEAR", "DEFAULT", "DEGREES", "ELT", "EXP", "EXPORT_SET", "EXTRACT", "FIELD", "FIND_IN_SET",
    "FLOOR", "FORMAT", "FROM_BASE64", "FROM_DAYS", "FROM_UNIXTIME", "GREATEST", "GROUP_CONCAT", "HEX", "HOUR", "IF",
    "IFNULL", "INET_ATON", "INET_NTOA", "INSERT", "INSTR", "ISNULL", "JSON_ARRAY", "JSON_CONTAINS", "JSON_EXTRACT",
    "JSON_INSERT", "JSON_KEYS", "JSON_LENGTH", "JSON_OBJECT", "JSON_QUOTE", "JSON_REMOVE", "JSON_REPLACE",
    "JSON_SEARCH", "JSON_SET", "JSON_TYPE", "JSON_UNQUOTE", "JSON_VALID", "LAST_DAY", "LAST_INSERT_ID", "LCASE",
    "LEAST", "LEFT", "LENGTH", "LN", "LOCALTIME", "LOCALTIMESTAMP", "LOCATE", "LOG", "LOG10", "LOG2", "LOWER",
    "LPAD", "LTRIM", "MAKEDATE", "MAKETIME", "MAKE_SET", "MAX", "MICROSECOND", "MID", "MIN", "MINUTE", "MONTH",
    "MONTHNAME", "NAME_CONST", "NOW", "NULLIF", "OCT", "OCTET_LENGTH", "ORD", "PERIOD_ADD", "PERIOD_DIFF", "PI",
    "POSITION", "POW", "POWER", "QUARTER", "QUOTE", "RADIANS", "RAND", "REPEAT", "REPLACE", "REVERSE", "RIGHT",
    "ROUND", "RPAD", "RTRIM", "SECOND", "SEC_TO_TIME", "SHA2", "SIGN", "SIN", "SOUNDEX", "SPACE", "SQRT", "STD",
    "STDDEV", "STRCMP", "STR_TO_DATE", "SUBDATE", "SUBSTR", "SUBSTRING", "SUBSTRING_INDEX", "SUBTIME", "SUM",
    "SYSDATE", "TAN", "TIME", "TIMEDIFF", "TIMESTAMP", "TIMESTAMPADD", "TIMESTAMPDIFF", "TIME_FORMAT", "TIME_TO_SEC",
    "TO_BASE64", "TO_DAYS", "TO_SECONDS", "TRIM", "TRUNCATE", "UCASE", "UNHEX", "UNIX_TIMESTAMP", "UPPER", "USER",
    "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP", "UUID", "UUID_SHORT", "VARIANCE", "VERSION", "WEEK", "WEEKDAY",
    "WEEKOFYEAR", "YEAR", "YEARWEEK"
})  # fmt: skip
"""Functions that every server has: where one were lacking, there could be a stored one of its name."""
_OWN_SCHEMA = "mysql"
_QUERIES = frozenset({"SELECT", "TABLE"})
_CHANGES_OLD_ROWS = frozenset({"UPDATE", "DELETE", "REPLACE"})
_NAME_CHARACTERS_MAX = 64
_NAMES = frozenset({TokenKind.WORD, TokenKind.NAME, TokenKind.DOUBLE})


def foreign_call(tokens: Sequence[Token]) -> str:
    """Return the name of a function that a statement calls and that may be a stored one; "" if it surely calls none."""
    columns = _column_list(tokens)
    for index in range(1, len(tokens)):
        name = tokens[index - 1]
        if tokens[index].upper != "(" or index == columns or name.kind not in _NAMES or name.upper in KEYWORDS:
            continue
        # With a blank before the parenthesis, some names are no longer those of built-in functions.
        is_built_in = name.upper in BUILT_IN and name.end == tokens[index].start
        if not is_built_in or (index > 1 and tokens[index - 2].upper == "."):
            return name.value
    return ""


def changes_old_rows(tokens: Sequence[Token]) -> bool:
    """Whether a statement may change or delete rows that were there, which is what foreign keys act on."""
    return any(token.upper in _CHANGES_OLD_ROWS for token in tokens)


def stays_inside(tokens: Sequence[Token], written: Collection[TableId]) -> bool:
    """Whether a statement that calls no stored function writes to the server's own schema and nowhere else.

    No server lets anybody make a trigger there. Views there are the server's, of
    tables that are there too; but a query could read other ones, which may call
    functions. Providers of servers write there by statements: Amazon RDS does so
    every few minutes, whatever binlog_format says.
    """
    is_inside = bool(written) and all(table.schema == _OWN_SCHEMA for table in written)
    return is_inside and not any(token.upper in _QUERIES for token in tokens)


def named_anywhere(tokens: Sequence[Token], default_schema: str) -> Collection[TableId]:
    """Return everything that may be the name of a table or view in a statement, columns and much else among it."""
    found = set()
    for index, token in enumerate(tokens):
        if token.kind not in _NAMES or token.upper.isdecimal() or len(token.value) > _NAME_CHARACTERS_MAX:
            continue
        if index > 1 and tokens[index - 1].upper == "." and tokens[index - 2].kind in _NAMES:
            found.add(TableId(tokens[index - 2].value, token.value))
        else:
            found.add(TableId(default_schema, token.value))
    return found


def _column_list(tokens: Sequence[Token]) -> int:
    """Where the parenthesis stands behind the table of an INSERT, REPLACE or LOAD DATA: its name is no function's."""
    reader = TokenReader(tokens)
    seek_verb(reader)
    if reader.skip("INSERT") or reader.skip("REPLACE"):
        reader.skip_any(WRITE_MODIFIERS)
    elif not (reader.skip("LOAD") and reader.seek("INTO", "TABLE")):
        return -1
    return -1 if reader.take_table() is None else reader.at
