"""The values of one column of a text file: what is NULL, what is refused, and how PostgreSQL is told.

Source: Amazon Redshift Database Developer Guide, "Data conversion parameters", "DATEFORMAT and TIMEFORMAT strings",
"Load error reference", "Multibyte character load errors".
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute

from penstock.dev.redshift.errors import refuse
from penstock.dev.redshift.load_errors import (
    BAD_CHARACTER,
    BAD_DATE,
    BAD_JSON,
    BAD_TIMESTAMP,
    TOO_LONG,
    BadRow,
    LoadError,
)

if TYPE_CHECKING:
    from penstock.dev.redshift.copy_options import CopyOptions
    from penstock.dev.redshift.copy_target import Column

_Texts = Any  # strings of Arrow: what its functions return, its stubs know too narrowly
pc: Any = pyarrow.compute  # its stubs refuse what its functions take

_CHARACTERS = frozenset({"varchar", "bpchar", "text"})
_TEMPORAL = {"date": BAD_DATE, "timestamp": BAD_TIMESTAMP, "timestamptz": BAD_TIMESTAMP}
_DEFAULT_FORMATS = {
    "date": r"\d{4}-\d{1,2}-\d{1,2}",
    "timestamp": r"\d{4}-\d{1,2}-\d{1,2}(?: \d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?",
    "timestamptz": r"\d{4}-\d{1,2}-\d{1,2}(?: \d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?"
    r"(?: ?(?:[+-]\d{1,2}(?::?\d{2})?|[A-Z]+))?",
}
_NAMES = {"date": "YYYY-MM-DD", "timestamp": "YYYY-MM-DD HH24:MI:SS", "timestamptz": "YYYY-MM-DD HH24:MI:SSOF"}
# What a format's parts match, and which part of a date it is.
_PARTS = {
    "YYYY": (r"(?P<year>\d{4})", "year"),
    "MM": (r"(?P<month>\d{1,2})", "month"),
    "DD": (r"(?P<day>\d{1,2})", "day"),
    "HH24": (r"(?P<hour>\d{1,2})", "hour"),
    "HH": (r"(?P<hour>\d{1,2})", "hour"),
    "MI": (r"(?P<minute>\d{2})", "minute"),
    "SS": (r"(?P<second>\d{2}(?:\.\d+)?)", "second"),
    "OF": (r"(?P<zone>[+-]\d{1,2}(?::?\d{2})?)", "zone"),
}
_PART = re.compile("|".join(_PARTS))
_BLANK = r"^\s*$"
_BLANK_IN_JSON = r'("(?:[^"\\]|\\.)*")|\s+'


def convert_column(values: pa.Array[Any], column: Column, options: CopyOptions, first_row: int) -> _Texts:
    """A column of bytes as strings of PostgreSQL's COPY text, NULL where it is NULL.

    `first_row` is the number of the first of them in its file. Raises LoadError for the first that is refused.
    """
    texts = _decoded(values, column, options, first_row)
    if options.trim_blanks and column.type_name == "varchar":
        texts = pc.utf8_rtrim(texts, " ")
    texts = _with_nulls(texts, column, options)
    if column.type_name in _TEMPORAL:
        texts = _dates(texts, column, options, first_row)
    elif column.type_name == "numeric" and column.scale is not None and not options.round_decimals:
        texts = _truncated_decimals(texts, column.scale)
    elif column.type_name == "super":
        texts = pc.replace_substring_regex(texts, _BLANK_IN_JSON, r"\1")
    elif column.length:
        texts = _limited(texts, column, options, first_row)
    return escape(texts)


def escape(texts: _Texts) -> _Texts:
    """Strings with a backslash before what COPY text would take otherwise."""
    for character, replacement in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        if pc.any(pc.match_substring(texts, character)).as_py():
            texts = pc.replace_substring(texts, character, replacement)
    return texts


def _decoded(values: pa.Array[Any], column: Column, options: CopyOptions, first_row: int) -> _Texts:
    """Bytes as UTF-8, with what is invalid replaced if that is asked for."""
    if not pc.any(pc.match_substring(values, b"\0")).as_py():
        with contextlib.suppress(pa.ArrowInvalid):
            return values.cast(pa.string())
    found: list[str | None] = []
    for row, value in enumerate(values.to_pylist()):
        wrong = _invalid_bytes(value, options)
        if wrong and options.invalid_characters is None:
            reason = f"String contains invalid or unsupported UTF8 codepoints. Bad UTF8 hex sequence: {wrong.hex(' ')}"
            shown = (value or b"").decode(errors="replace")
            raise LoadError(BadRow(first_row + row, column.number, BAD_CHARACTER, f"{reason} (error 3)", shown))
        found.append(_replaced(value, options.invalid_characters or "") if value is not None else None)
    return pa.array(found, pa.string())


def _invalid_bytes(value: bytes | None, options: CopyOptions) -> bytes:
    """The first bytes that are no UTF-8, or a zero, which a string cannot hold."""
    try:
        text = (value or b"").decode()
    except UnicodeDecodeError as error:
        return error.object[error.start : error.end]
    return b"\0" if "\0" in text and options.null != "\0" else b""


def _replaced(value: bytes, by: str) -> str:
    """Each invalid byte replaced by one character, so that the length stays."""
    parts: list[str] = []
    while value:
        try:
            parts.append(value.decode())
            break
        except UnicodeDecodeError as error:
            parts.append(value[: error.start].decode() + by * (error.end - error.start))
            value = value[error.end :]
    return "".join(parts).replace("\0", by)


def _with_nulls(texts: _Texts, column: Column, options: CopyOptions) -> _Texts:
    is_null = pc.equal(texts, options.null)
    if options.null == r"\N":
        is_null = pc.or_(is_null, pc.equal(texts, "\\\\N"))
    if column.type_name in _CHARACTERS:
        if options.empty_as_null:
            is_null = pc.or_(is_null, pc.equal(texts, ""))
        if options.blanks_as_null:
            is_null = pc.or_(is_null, pc.match_substring_regex(texts, _BLANK))
    else:
        # "Empty fields for other data types, such as INT, are always loaded with NULL." So are blank ones.
        is_null = pc.or_(is_null, pc.match_substring_regex(texts, _BLANK))
    return pc.if_else(is_null, pa.scalar(None, pa.string()), texts)


def _dates(texts: _Texts, column: Column, options: CopyOptions, first_row: int) -> _Texts:
    """Dates and timestamps in ISO's order, whatever order the option says."""
    form = options.date_format if column.type_name == "date" else options.time_format
    kind = column.type_name
    if form.lower() in {"epochsecs", "epochmillisecs"} and kind != "date":
        return _epochs(texts, form, column, first_row)
    if form.lower() == "auto":
        pattern, order = r"\d.*", ""
    elif form:
        pattern, order = _compile(form)
    else:
        pattern, order = _DEFAULT_FORMATS[kind], ""
    _check(texts, f"^{pattern}$", form or _NAMES[kind], column, first_row)
    return pc.replace_substring_regex(texts, f"^{pattern}$", order) if order else texts


def _compile(form: str) -> tuple[str, str]:
    """A format's pattern, and what its groups make in ISO's order. RedshiftError for a format that is not known."""
    names: list[str] = []
    pattern, at = "", 0
    for found in _PART.finditer(form.upper()):
        part, name = _PARTS[found[0]]
        pattern += re.escape(form[at : found.start()]) + part
        names.append(name)
        at = found.end()
    pattern += re.escape(form[at:])
    if not {"year", "month", "day"} <= set(names) or re.search(r"[A-SU-Z]{2}", re.sub(r"\(.*?\)", "", pattern.upper())):
        message = f"the stand-in does not know the format {form}"
        raise refuse(message)
    place = {name: f"\\{number}" for number, name in enumerate(names, 1)}
    order = f"{place['year']}-{place['month']}-{place['day']}"
    if "hour" in place:
        order += f" {place['hour']}:{place.get('minute', '00')}:{place.get('second', '00')}{place.get('zone', '')}"
    return pattern, order


def _epochs(texts: _Texts, form: str, column: Column, first_row: int) -> _Texts:
    _check(texts, r"^-?\d+(?:\.\d+)?$", form, column, first_row)
    factor = 1_000_000 if form.lower() == "epochsecs" else 1_000
    micros = pc.cast(pc.round(pc.multiply(pc.cast(texts, pa.float64()), float(factor))), pa.int64())
    return pc.cast(pc.cast(micros, pa.timestamp("us")), pa.string())


def _check(texts: _Texts, pattern: str, form: str, column: Column, first_row: int) -> None:
    """Raise LoadError for the first value that does not read so."""
    bad = pc.index(pc.fill_null(pc.match_substring_regex(texts, pattern), fill_value=True), False).as_py()
    if bad >= 0:
        what = "Date" if column.type_name == "date" else "Timestamp"
        code = _TEMPORAL[column.type_name]
        reason = (
            f"Invalid {what} Format - length must be 10 or more"
            if what == "Date"
            else f"Invalid timestamp format or value [{form}]"
        )
        raise LoadError(BadRow(first_row + bad, column.number, code, reason, texts[bad].as_py()))


def _truncated_decimals(texts: _Texts, scale: int) -> _Texts:
    """Redshift cuts digits off where PostgreSQL rounds."""
    pattern = rf"^(\s*[+-]?\d*\.\d{{{scale}}})\d+(\s*)$"
    if not pc.any(pc.match_substring_regex(texts, pattern)).as_py():
        return texts
    return pc.replace_substring_regex(texts, pattern, r"\1\2")


def _limited(texts: _Texts, column: Column, options: CopyOptions, first_row: int) -> _Texts:
    """VARCHAR and CHAR by bytes, VARBYTE by two digits each."""
    limit = column.length or 0
    if column.type_name == "varbyte":
        bad = pc.index(
            pc.fill_null(pc.match_substring_regex(texts, r"^(?:[0-9A-Fa-f]{2})*$"), fill_value=True), False
        ).as_py()
        if bad >= 0:
            raise LoadError(BadRow(first_row + bad, column.number, BAD_JSON, "Invalid hex digits", texts[bad].as_py()))
        texts, limit = pc.utf8_lower(texts), 2 * limit
    if column.type_name == "bpchar":
        bad = pc.index(pc.fill_null(pc.string_is_ascii(texts), fill_value=True), False).as_py()
        if bad >= 0:
            value = texts[bad].as_py()
            invalid = value.encode().hex(" ")
            reason = f"Multibyte character not supported for CHAR (Hint: try using VARCHAR). Invalid char: {invalid}"
            raise LoadError(BadRow(first_row + bad, column.number, BAD_CHARACTER, reason[:100], value))
    too_long = pc.fill_null(pc.greater(pc.binary_length(texts), limit), fill_value=False)
    bad = pc.index(too_long, True).as_py()
    if bad < 0:
        return texts
    if options.truncate_columns:
        return pa.array(
            [None if text is None else text.encode()[:limit].decode(errors="ignore") for text in texts.to_pylist()]
        )
    raise LoadError(
        BadRow(first_row + bad, column.number, TOO_LONG, "String length exceeds DDL length", texts[bad].as_py())
    )
