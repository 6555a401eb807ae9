"""PostgreSQL's errors in Redshift's words, where Redshift's documentation or its clients know others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.dev.redshift.wire import RedshiftError

if TYPE_CHECKING:
    from collections.abc import Mapping

INTERNAL = "XX000"
"""What Redshift answers for most that is its own: failed loads, isolation errors, full disks."""

_LENGTH_CHECK = re.compile(r"standin_(varchar|char|varbyte)_(\d+)_")
_TYPES = {"varchar": "character varying", "char": "character", "varbyte": "binary varying"}
_UNKNOWN = frozenset({"42601", "42883", "42704", "0A000"})
_OWNER = re.compile(r"must be owner of (?:table|view|sequence|index) ")


def translate(fields: Mapping[str, str]) -> RedshiftError:
    """The error that PostgreSQL told in `fields`, as Redshift tells it."""
    state, message = fields.get("C", INTERNAL), fields.get("M", "")
    detail, hint = fields.get("D", ""), fields.get("H", "")
    check = _LENGTH_CHECK.match(fields.get("n", ""))
    if check is not None:
        state, message, detail = "22001", f"value too long for type {_TYPES[check[1]]}({check[2]})", ""
    elif state == "40001":
        return isolation_violation(fields)
    elif state == "57014":
        message = "Query cancelled on user's request"
    elif state == "25006":
        message = "cannot execute this statement: the database is read-only"
    elif state in _UNKNOWN:
        hint = "the stand-in does not know it: neither rewritten from Redshift's SQL nor PostgreSQL's. " + hint
    else:
        message = _OWNER.sub("must be owner of relation ", message)
    fatal = fields.get("S") in {"FATAL", "PANIC"}
    return RedshiftError(state, message, detail, hint, fields=fields, fatal=fatal)


def isolation_violation(fields: Mapping[str, str]) -> RedshiftError:
    """Error 1023: "Troubleshooting serializable isolation errors"."""
    detail = f"Serializable isolation violation on table - 0, transactions forming the cycle are: 0, 0 (pid:{0})"
    return RedshiftError(INTERNAL, "1023", detail, fields.get("M", ""), fields=fields)


def refuse(message: str, *, hint: str = "", sqlstate: str = "0A000", fatal: bool = False) -> RedshiftError:
    """A refusal of our own; 0A000 is feature_not_supported."""
    return RedshiftError(sqlstate, message, hint=hint, fatal=fatal)


def unknown(what: str) -> RedshiftError:
    """What the stand-in cannot do, though Redshift may."""
    return refuse(f"the stand-in does not know {what}", hint="see the list in src/penstock/dev/redshift/README.md")
