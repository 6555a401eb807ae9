"""What the databases call the functions that signatures are made of.

`{0}` stands for the argument. Sources: MariaDB Server documentation and MySQL 9
Reference Manual, "String Functions" and "Encryption and Compression Functions";
PostgreSQL 17 documentation, chapter 9; DuckDB documentation, "Functions".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

HashForm: TypeAlias = Literal["sha256", "classic"]
"""SHA-256 of a text whose columns have borders, or MD5 of nothing but the columns' texts, NULL as `NULL`."""
Kind: TypeAlias = Literal[
    "boolean",
    "integer",
    "decimal",
    "float",
    "text",
    "bytes",
    "date",
    "datetime",
    "timestamp",
    "time",
]
"""Of values that are written in one way."""


@dataclass(frozen=True, slots=True)
class AuditDialect:
    """One database's SQL. `texts` writes a value of each kind as its canonical text.

    `float_text` writes a float with the fewest digits that give it back, in
    whatever layout the database likes; `mantissa` and `exponent` take that apart.
    `hashes` gives 32 hexadecimal digits, `word` the number of eight of them.
    `divide` cuts towards zero. `fence` at the end of a subquery keeps the
    optimizer from computing what is in it more than once. `collated_literal` is a text, `{0}`, that is compared with
    one of the character set `{1}` and the collation `{2}`, where these matter. `text_cast` makes a text
    of what is compared with one, so that an index of texts may serve. `not_written`
    are kinds that this SQL cannot write so that others write the same. `scans`: no
    index serves ranges of a key. `reads_whole`: a table is read by one query, since many
    smaller ones may each cost as much. `number_list` is what stands within IN (...) for
    whole numbers of 64 bits, of which a query lists `numbers_at_once`.
    """

    name: str
    quote: str
    texts: Mapping[Kind, str]
    float_text: str
    mantissa: str
    exponent: str
    hashes: Mapping[HashForm, str]
    word: str
    divide: str
    divide_wide: str
    bytes_length: str
    as_text: str
    text_literal: str
    bytes_literal: str
    collated_literal: str = ""
    without_zeros_before: str = "TRIM(LEADING '0' FROM {0})"
    without_zeros_behind: str = "TRIM(TRAILING '0' FROM {0})"
    characters: str = "CHAR_LENGTH({0})"
    text_cast: str = "CAST({0} AS VARCHAR)"
    not_written: frozenset[Kind] = frozenset()
    keeps_json_text: bool = True
    scans: bool = False
    reads_whole: bool = False
    number_list: str = "{0}"
    numbers_at_once: int = 10_000
    has_concat: bool = False
    fence: str = ""
    zero_dates: bool = False

    def quoted(self, *names: str) -> str:
        """A name with dots between its parts, quoted."""
        mark = self.quote
        return ".".join(f"{mark}{name.replace(mark, mark + mark)}{mark}" for name in names)

    def joined(self, texts: tuple[str, ...]) -> str:
        """One text of several, none of which is NULL."""
        if len(texts) == 1:
            return texts[0]
        return f"CONCAT({', '.join(texts)})" if self.has_concat else f"({' || '.join(texts)})"


_MYSQL_MICROSECONDS: Final = (
    "CONCAT(CASE WHEN {0} < CAST('00:00:00' AS TIME) THEN '-' ELSE '' END,"
    " CAST((HOUR({0}) * 3600 + MINUTE({0}) * 60 + SECOND({0})) * 1000000 + MICROSECOND({0}) AS CHAR))"
)

MARIADB: Final = AuditDialect(
    name="mariadb",
    quote="`",
    texts=MappingProxyType(
        {
            # Adding 0 drops the zeros of ZEROFILL and makes a number of a BIT.
            "boolean": "CAST({0} + 0 AS CHAR)",
            "integer": "CAST({0} + 0 AS CHAR)",
            "decimal": "CAST({0} + 0 AS CHAR)",
            "text": "CONVERT({0} USING utf8mb4)",
            "bytes": "LOWER(HEX({0}))",
            "date": "DATE_FORMAT({0}, '%Y-%m-%d')",
            "datetime": "DATE_FORMAT({0}, '%Y-%m-%d %H:%i:%s.%f')",
            "timestamp": "DATE_FORMAT({0}, '%Y-%m-%d %H:%i:%s.%f')",
            "time": _MYSQL_MICROSECONDS,
        }
    ),
    # A FLOAT alone would be printed with six digits, and a DOUBLE(10, 2) with two behind the point.
    float_text="CAST({0} * 1e0 AS CHAR)",
    mantissa="SUBSTRING_INDEX({0}, 'e', 1)",
    exponent="CASE WHEN POSITION('e' IN {0}) > 0 THEN CAST(SUBSTRING_INDEX({0}, 'e', -1) AS SIGNED) ELSE 0 END",
    # In ASCII, for in the session's character set each would take four times the room in temporary tables.
    hashes=MappingProxyType(
        {"sha256": "CONVERT(LEFT(SHA2({0}, 256), 32) USING ascii)", "classic": "CONVERT(MD5({0}) USING ascii)"}
    ),
    word="CAST(CONV({0}, 16, 10) AS UNSIGNED)",
    divide="({0} DIV {1})",
    divide_wide="({0} DIV {1})",
    bytes_length="LENGTH({0})",
    as_text="CAST({0} AS CHAR)",
    text_literal="CONVERT(x'{0}' USING utf8mb4)",
    bytes_literal="x'{0}'",
    # What is converted is as strong as a column: of two collations that both are no literal's, the server takes none.
    collated_literal="CONVERT(_utf8mb4 x'{0}' USING {1}) COLLATE {2}",
    text_cast="{0}",
    has_concat=True,
    zero_dates=True,
)
"""MariaDB, in a session in UTC whose optimizer_switch has derived_merge=off: else it hashes a row for every sum."""

MYSQL: Final = replace(
    MARIADB,
    name="mysql",
    # By way of JSON: what is computed is cast to 22 characters at most, and -1.1102230246251565e-16 has more.
    float_text="CAST(CAST({0} * 1e0 AS JSON) AS CHAR)",
)
"""MySQL 8 and later, in such a session. From 9.6 on it has no MD5()."""

_DOUBLE = "CAST({0} AS DOUBLE PRECISION)"
_PRINTED = f"CAST({_DOUBLE} AS TEXT)"
_PLACE = (
    f"LENGTH(split_part(split_part({_PRINTED}, 'e', 1), '.', 2)) - 1 - CAST(split_part({_PRINTED}, 'e', 2) AS INTEGER)"
)
_ONE_DIGIT_LESS = tuple(f"{cut}(CAST({_PRINTED} AS NUMERIC), {_PLACE})" for cut in ("ROUND", "TRUNC"))
"""Both: where the last digit is a 5, it may itself be rounded up, and rounding it again leads away."""
_IF_ONE_DIGIT_LESS = " ".join(
    f"WHEN CAST({less} AS DOUBLE PRECISION) = {_DOUBLE} THEN CAST({less} AS TEXT)" for less in _ONE_DIGIT_LESS
)

_AS_MOMENT: Final = "YYYY-MM-DD HH24:MI:SS.US"


def _dated(value: str, pattern: str) -> str:
    """What to_char makes of a date; it has NULL for what is infinite, and the year 44 for 44 BC: these as printed."""
    is_plain = f"isfinite({value}) AND {value} >= '0001-01-01'"
    return f"CASE WHEN {is_plain} THEN to_char({value}, '{pattern}') ELSE CAST({value} AS TEXT) END"


POSTGRES: Final = AuditDialect(
    name="postgres",
    quote='"',
    texts=MappingProxyType(
        {
            "boolean": "CAST(CAST({0} AS INTEGER) AS TEXT)",
            "integer": "CAST({0} AS TEXT)",
            "decimal": "CAST({0} AS TEXT)",
            "text": "CAST({0} AS TEXT)",
            "bytes": "encode({0}, 'hex')",
            "date": _dated("{0}", "YYYY-MM-DD"),
            "datetime": _dated("{0}", _AS_MOMENT),
            "timestamp": _dated("({0} AT TIME ZONE 'UTC')", _AS_MOMENT),
            "time": "CAST(CAST(EXTRACT(EPOCH FROM {0}) * 1000000 AS BIGINT) AS TEXT)",
        }
    ),
    # From 2^54 on a number with fewer digits may be half-way between this double and the next. Where this one is
    # even, others print those digits, since they read back as it; PostgreSQL never does. 1e300: nothing overflows.
    # NaN and infinity as others print them.
    float_text=(
        f"CASE WHEN ABS({_DOUBLE}) < 18014398509481984 THEN {_PRINTED}"
        f" WHEN {_PRINTED} = 'NaN' THEN 'nan' WHEN {_PRINTED} = 'Infinity' THEN 'inf'"
        f" WHEN {_PRINTED} = '-Infinity' THEN '-inf' WHEN ABS({_DOUBLE}) >= 1e300 THEN {_PRINTED}"
        f" {_IF_ONE_DIGIT_LESS} ELSE {_PRINTED} END"
    ),
    mantissa="split_part({0}, 'e', 1)",
    exponent="CASE WHEN POSITION('e' IN {0}) > 0 THEN CAST(split_part({0}, 'e', 2) AS INTEGER) ELSE 0 END",
    hashes=MappingProxyType(
        {"sha256": "LEFT(encode(sha256(convert_to({0}, 'UTF8')), 'hex'), 32)", "classic": "md5({0})"}
    ),
    word="CAST(CAST('x' || {0} AS BIT(32)) AS BIGINT)",
    divide="({0} / {1})",
    divide_wide="div({0}, {1})",
    bytes_length="octet_length({0})",
    as_text="CAST({0} AS TEXT)",
    # By way of JSON, for convert_from gives a text of the collation "C": it conflicts with that of a column, and keeps
    # the index of a column without one from being used.
    text_literal="(to_jsonb(convert_from(decode('{0}', 'hex'), 'UTF8')) #>> '{{}}')",
    bytes_literal="decode('{0}', 'hex')",
    text_cast="CAST({0} AS TEXT)",
    fence=" OFFSET 0",
)
"""PostgreSQL 13 and later, in a session in UTC with the ISO date style, in a database in UTF-8."""

POSTGRES_SOURCE: Final = replace(
    POSTGRES,
    texts=MappingProxyType(
        # Not CAST: it cuts the blanks of a CHAR, and shows inet otherwise than it is printed.
        # Nor IS NOT NULL: it is false for a row that has a NULL in it.
        {**POSTGRES.texts, "text": "CASE WHEN {0} IS DISTINCT FROM NULL THEN CONCAT({0}) END"}
    ),
    bytes_length="octet_length(convert_to({0}, 'UTF8'))",
)
"""PostgreSQL 12 and later as a source, with its own types and any encoding, in such a session."""

DUCKDB: Final = AuditDialect(
    name="duckdb",
    quote='"',
    texts=MappingProxyType(
        {
            "boolean": "CAST(CAST({0} AS INTEGER) AS VARCHAR)",
            "integer": "CAST({0} AS VARCHAR)",
            # A DECIMAL(4, 4) alone is printed as `.1234`.
            "decimal": "regexp_replace(CAST({0} AS VARCHAR), '^(-?)[.]', '\\10.')",
            "text": "CAST({0} AS VARCHAR)",
            "bytes": "lower(hex({0}))",
            "date": "CAST({0} AS VARCHAR)",
            "datetime": "strftime({0}, '%Y-%m-%d %H:%M:%S.%f')",
            # An instant's own text would need the extension for time zones; an infinite one has no microseconds.
            "timestamp": (
                "CASE {0} WHEN CAST('infinity' AS TIMESTAMPTZ) THEN 'infinity'"
                " WHEN CAST('-infinity' AS TIMESTAMPTZ) THEN '-infinity'"
                " ELSE strftime(make_timestamp(epoch_us({0})), '%Y-%m-%d %H:%M:%S.%f') END"
            ),
            "time": "CAST(epoch_us({0}) AS VARCHAR)",
        }
    ),
    # It prints 16 or 17 digits of some numbers that fewer, half-way to the next number, give back: others print those.
    float_text=(
        "CASE WHEN ABS(CAST({0} AS DOUBLE)) < 18014398509481984"
        " OR LENGTH(split_part(CAST(ABS(CAST({0} AS DOUBLE)) AS VARCHAR), 'e', 1)) < 17"
        " THEN CAST(CAST({0} AS DOUBLE) AS VARCHAR)"
        " WHEN CAST(printf('%.14e', CAST({0} AS DOUBLE)) AS DOUBLE) = CAST({0} AS DOUBLE)"
        " THEN printf('%.14e', CAST({0} AS DOUBLE))"
        " WHEN CAST(printf('%.15e', CAST({0} AS DOUBLE)) AS DOUBLE) = CAST({0} AS DOUBLE)"
        " THEN printf('%.15e', CAST({0} AS DOUBLE)) ELSE CAST(CAST({0} AS DOUBLE) AS VARCHAR) END"
    ),
    mantissa="split_part({0}, 'e', 1)",
    exponent="CASE WHEN POSITION('e' IN {0}) > 0 THEN CAST(split_part({0}, 'e', 2) AS INTEGER) ELSE 0 END",
    hashes=MappingProxyType({"sha256": "LEFT(sha256({0}), 32)", "classic": "md5({0})"}),
    word="CAST('0x' || {0} AS BIGINT)",
    divide="({0} // {1})",
    # `//` of decimals makes floats.
    divide_wide="(CAST({0} AS HUGEINT) // {1})",
    bytes_length="strlen({0})",
    as_text="CAST({0} AS VARCHAR)",
    text_literal="decode(from_hex('{0}'))",
    bytes_literal="from_hex('{0}')",
    scans=True,
    # To plan a list takes it longer than to look up what is in it: a text is one constant.
    number_list="SELECT CAST(unnest(string_split('{0}', ', ')) AS BIGINT)",
    numbers_at_once=50_000,
)
"""DuckDB 1.0 and later."""
