"""COPY and what may follow it, read into one description.

Source: Amazon Redshift Database Developer Guide, "COPY", "Data format parameters", "Data conversion parameters",
"Data load operations", "Authorization parameters", "File compression parameters".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.dev.redshift.cluster import ROLE, S3Place
from penstock.dev.redshift.errors import INTERNAL, refuse, unknown
from penstock.dev.redshift.wire import RedshiftError

if TYPE_CHECKING:
    from penstock.dev.redshift.cluster import Cluster
    from penstock.dev.redshift.reading import Reading

_COMPRESSIONS = frozenset({"GZIP", "ZSTD", "BZIP2", "LZOP"})
_KNOWN_COMPRESSIONS = frozenset({"GZIP", "ZSTD", "BZIP2"})
_ERRORS_MAX = 100_000
_CREDENTIAL = re.compile(r"(\w+)=([^;]*)")


@dataclass
class Authorization:
    """With which keys files are read or written: a role's, or those that the statement gives."""

    role: str = ""
    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)

    def take(self, reading: Reading) -> bool:
        """Read one of its clauses, if one follows."""
        if reading.take("IAM_ROLE"):
            self.role = ROLE if reading.take("DEFAULT") else self._role(reading.string())
        elif reading.take("ACCESS_KEY_ID"):
            reading.take("AS")
            self.access_key_id = reading.string()
        elif reading.take("SECRET_ACCESS_KEY"):
            reading.take("AS")
            self.secret_access_key = reading.string()
        elif reading.take("SESSION_TOKEN"):
            # Keys for a time have one; those of the S3 server here do not need it.
            reading.take("AS")
            reading.string()
        elif reading.take("CREDENTIALS"):
            reading.take("AS")
            self._credentials(reading.string())
        elif reading.take("WITH"):
            return self.take(reading)
        else:
            return False
        return True

    def place(self, cluster: Cluster) -> S3Place:
        """The S3 server with these keys. RedshiftError for a role that may not, or where nothing was given."""
        known = cluster.s3()
        if self.access_key_id and self.secret_access_key:
            return S3Place(known.endpoint, self.access_key_id, self.secret_access_key, known.region)
        if self.role in {ROLE, "default"}:
            return known
        if self.role:
            message = (
                f"User arn:aws:redshift::000000000000:dbuser:standin is not authorized to assume IAM Role {self.role}"
            )
            raise RedshiftError(INTERNAL, message, hint=f"the stand-in has the role {ROLE}")
        message = "COPY and UNLOAD need IAM_ROLE, ACCESS_KEY_ID with SECRET_ACCESS_KEY, or CREDENTIALS"
        raise refuse(message, sqlstate="42601")

    def _role(self, text: str) -> str:
        if text != "default" and not text.startswith("arn:aws"):
            message = f"Invalid IAM role ARN: {text}"
            raise refuse(message, sqlstate=INTERNAL)
        return text

    def _credentials(self, text: str) -> None:
        found = dict(_CREDENTIAL.findall(text))
        self.role = found.get("aws_iam_role", "")
        self.access_key_id = found.get("aws_access_key_id", "")
        self.secret_access_key = found.get("aws_secret_access_key", "")


@dataclass
class CopyOptions:
    """How the files of a COPY are to be read. `null` is None where none was given."""

    form: str = "TEXT"
    compression: str = ""
    manifest: bool = False
    delimiter: str = ""
    quote: str = '"'
    escape: bool = False
    remove_quotes: bool = False
    null: str = r"\N"
    empty_as_null: bool = False
    blanks_as_null: bool = False
    ignore_blank_lines: bool = False
    ignore_header: int = 0
    date_format: str = ""
    time_format: str = ""
    errors_max: int = 0
    invalid_characters: str | None = None
    truncate_columns: bool = False
    round_decimals: bool = False
    explicit_ids: bool = False
    trim_blanks: bool = False
    no_load: bool = False
    serialize_to_json: bool = False
    authorization: Authorization = field(default_factory=Authorization)

    def read(self, reading: Reading) -> None:
        """Read all that follows the place of the files; RedshiftError for what is not known."""
        while not reading.at_end():
            if not (self.authorization.take(reading) or self._format(reading) or self._conversion(reading)):
                word = reading.next()
                raise unknown(f"COPY ... {word.text}") if word.word.isalpha() else reading.error(word.text)
        self.check()

    def check(self) -> None:
        """Raise RedshiftError for options that exclude each other."""
        if self.form == "CSV" and (self.escape or self.remove_quotes):
            option = "ESCAPE" if self.escape else "REMOVEQUOTES"
            message = f"{option} option is not supported with CSV"
            raise refuse(message, sqlstate="42601")
        if self.form == "PARQUET":
            default = CopyOptions()
            own = {"form", "manifest", "authorization", "serialize_to_json", "errors_max"}
            given = [
                name for name in vars(default) if name not in own and getattr(self, name) != getattr(default, name)
            ]
            if given:
                option = given[0].replace("_", "").upper()
                message = f"{option} argument is not supported for PARQUET based COPY"
                raise refuse(message)
        self.delimiter = self.delimiter or ("," if self.form == "CSV" else "|")

    def _format(self, reading: Reading) -> bool:
        if reading.take("FORMAT"):
            reading.take("AS")
            return self._format(reading)
        if reading.peek() in {"CSV", "PARQUET"}:
            self.form = reading.next().word
            if self.form == "CSV" and reading.take("QUOTE"):
                reading.take("AS")
                self.quote = _character(reading.string(), "QUOTE")
        elif reading.take("DELIMITER"):
            reading.take("AS")
            self.delimiter = _character(reading.string(), "DELIMITER")
        elif reading.peek() in _COMPRESSIONS:
            self.compression = reading.next().word
            if self.compression not in _KNOWN_COMPRESSIONS:
                message = f"COPY ... {self.compression}"
                raise unknown(message)
        elif reading.take("MANIFEST"):
            self.manifest = True
        else:
            return _without_effect(reading)
        return True

    def _conversion(self, reading: Reading) -> bool:
        word = reading.peek()
        if word in _FLAGS:
            reading.next()
            setattr(self, _FLAGS[word], True)
            return True
        if word in {"STATUPDATE", "COMPUPDATE"}:
            reading.next()
            _switch(reading)
            return True
        return self._valued(reading, word)

    def _valued(self, reading: Reading, word: str) -> bool:
        match word:
            case "NULL":
                reading.next()
                reading.take("AS")
                self.null = reading.string()
            case "IGNOREHEADER":
                reading.next()
                reading.take("AS")
                self.ignore_header = reading.number()
            case "MAXERROR":
                reading.next()
                reading.take("AS")
                self.errors_max = reading.number()
                if self.errors_max > _ERRORS_MAX:
                    message = f"MAXERROR must be between 0 and {_ERRORS_MAX}"
                    raise refuse(message, sqlstate="22023")
            case "DATEFORMAT" | "TIMEFORMAT":
                reading.next()
                reading.take("AS")
                setattr(self, "date_format" if word == "DATEFORMAT" else "time_format", reading.string())
            case "ACCEPTINVCHARS":
                reading.next()
                self.invalid_characters = _replacement(reading)
            case _:
                return False
        return True


_FLAGS = {
    "ESCAPE": "escape",
    "REMOVEQUOTES": "remove_quotes",
    "EMPTYASNULL": "empty_as_null",
    "BLANKSASNULL": "blanks_as_null",
    "IGNOREBLANKLINES": "ignore_blank_lines",
    "TRUNCATECOLUMNS": "truncate_columns",
    "ROUNDEC": "round_decimals",
    "EXPLICIT_IDS": "explicit_ids",
    "TRIMBLANKS": "trim_blanks",
    "NOLOAD": "no_load",
    "SERIALIZETOJSON": "serialize_to_json",
}


def read_source(reading: Reading) -> tuple[str, str]:
    """Bucket and key of the S3 URL that follows; RedshiftError for any other place."""
    url = reading.string()
    if not url.startswith("s3://"):
        message = f"files at {url}"
        raise unknown(message)
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


def _character(text: str, option: str) -> str:
    """A single ASCII character, which may be written with a backslash and t, or in octal."""
    found = {"\\t": "\t"}.get(text, text)
    if re.fullmatch(r"\\[0-7]{3}", found):
        found = chr(int(found[1:], 8))
    if len(found) != 1 or not found.isascii():
        message = f"{option} must be a single ASCII character"
        raise refuse(message, sqlstate="22023")
    return found


def _without_effect(reading: Reading) -> bool:
    """Where the bucket is, and that files are UTF-8."""
    if not (reading.take("REGION") or reading.take("ENCODING")):
        return False
    reading.take("AS")
    if not reading.take("UTF8"):
        reading.string()
    return True


def _switch(reading: Reading) -> None:
    for word in ("ON", "OFF", "TRUE", "FALSE", "PRESET"):
        if reading.take(word):
            return


def _replacement(reading: Reading) -> str:
    """What invalid characters are replaced by: a question mark unless said otherwise."""
    reading.take("AS")
    if reading.at_end() or reading.peek():
        return "?"
    return _character(reading.string(), "ACCEPTINVCHARS")
