"""The savepoints of a transaction, by their names as servers compare them.

Source: MariaDB and MySQL asked for the weight of every character (a test asks them again). Up to MariaDB 11.4,
and in MySQL, names of savepoints are equal by utf8mb3_general_ci, which has one weight per character and passes
over case and most accents; in newer MariaDB by utf8mb3_general1400_as_ci, to which accents count.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import Final

_BEFORE_NAME: Final = re.compile(r"\A(?:ROLLBACK TO|SAVEPOINT) ", re.IGNORECASE)
_LIKE_OTHERS: Final = str.maketrans(
    {
        "ß": "s",
        "\N{LATIN SMALL LETTER DOTLESS I}": "i",
        "\N{GREEK LUNATE SIGMA SYMBOL}": "\N{GREEK SMALL LETTER SIGMA}",
        "\N{GREEK CAPITAL LUNATE SIGMA SYMBOL}": "\N{GREEK SMALL LETTER SIGMA}",
        "\N{COMBINING GREEK YPOGEGRAMMENI}": "\N{GREEK SMALL LETTER IOTA}",
    }
)
"""Characters that servers take for others, as neither their case nor their parts tell."""


class AmbiguousSavepointError(Exception):
    """Which savepoint a name means depends on the server."""


def savepoint_of(sql: str) -> str:
    """Return the name behind SAVEPOINT or ROLLBACK TO, as it was typed.

    The server quotes it as the session wants it: with backticks, with ANSI_QUOTES
    as "name", with sql_quote_show_create=0 not at all.
    """
    name = _BEFORE_NAME.sub("", sql).strip()
    quote = name[:1]
    return name[1:-1].replace(quote * 2, quote) if quote in {"`", '"'} else name


def loosely(name: str) -> str:
    """Return one form for all names that some server takes for the same, and for some more."""
    letters = unicodedata.normalize("NFD", name.translate(_LIKE_OTHERS))
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).casefold()


def _strictly(name: str) -> str:
    """Return one form for names that every server takes for the same."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


@dataclass(slots=True)
class Savepoints:
    """What there was of a transaction when each was set: how many items, how many bytes."""

    _marks: dict[str, tuple[int, int]] = field(default_factory=dict)

    def set(self, name: str, items: int, size_bytes: int) -> None:
        """Set one; an older one of that name is gone."""
        self._marks.pop(_strictly(name), None)
        self._marks[_strictly(name)] = items, size_bytes

    def roll_back_to(self, name: str) -> tuple[int, int]:
        """Return what there was at savepoint `name`; those behind it are gone.

        KeyError if there is none. AmbiguousSavepointError where another, set behind it, may be meant.
        """
        names = list(self._marks)
        alike = [index for index, each in enumerate(names) if loosely(each) == loosely(name)]
        if not alike:
            raise KeyError(name)
        strict = _strictly(name)
        first = names.index(strict) if strict in self._marks else alike[0]
        if len({self._marks[names[index]][0] for index in alike if index >= first}) > 1:
            raise AmbiguousSavepointError(name)
        for gone in names[alike[-1] + 1 :]:
            del self._marks[gone]
        return self._marks[names[alike[-1]]]
