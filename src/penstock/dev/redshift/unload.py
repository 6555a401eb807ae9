"""UNLOAD: what a query returns, as files on S3.

Source: Amazon Redshift Database Developer Guide, "UNLOAD".
"""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.dev.redshift.copy_options import Authorization, read_source
from penstock.dev.redshift.errors import INTERNAL, unknown
from penstock.dev.redshift.expressions import rewrite_tokens
from penstock.dev.redshift.files import Bucket
from penstock.dev.redshift.plan import Plan
from penstock.dev.redshift.reading import Reading
from penstock.dev.redshift.tokens import render, tokenize
from penstock.dev.redshift.wire import RedshiftError

if TYPE_CHECKING:
    from penstock.dev.redshift.plan import TargetPlace
    from penstock.dev.redshift.tokens import Statement

_ENDINGS = {"": "", "GZIP": ".gz", "ZSTD": ".zst"}


@dataclass
class Unload:
    """An UNLOAD statement."""

    query: str
    bucket: str
    key: str
    form: str = "TEXT"
    compression: str = ""
    manifest: bool = False
    overwrite: bool = False
    parallel: bool = True
    delimiter: str = ""
    null: str = ""
    authorization: Authorization = field(default_factory=Authorization)

    def read(self, reading: Reading) -> None:
        """Read the options; RedshiftError for what is not known."""
        while not reading.at_end():
            if self.authorization.take(reading) or self._valued(reading):
                continue
            word = reading.next().word
            match word:
                case "FORMAT" | "AS":
                    pass
                case "CSV":
                    self.form = "CSV"
                case "GZIP" | "ZSTD":
                    self.compression = word
                case "MANIFEST":
                    self.manifest = True
                case "ALLOWOVERWRITE":
                    self.overwrite = True
                case "PARALLEL":
                    self.parallel = not (reading.take("OFF") or reading.take("FALSE"))
                    reading.take("ON")
                case _:
                    message = f"UNLOAD ... {word}"
                    raise unknown(message)

    def _valued(self, reading: Reading) -> bool:
        word = reading.peek()
        if word not in {"DELIMITER", "NULL", "REGION"}:
            return False
        reading.next()
        reading.take("AS")
        value = reading.string()
        if word != "REGION":
            setattr(self, word.lower(), value)
        return True

    async def run(self, place: TargetPlace) -> str:
        """Write one file; RedshiftError where one is there already."""
        bucket = Bucket(self.authorization.place(place.cluster), self.bucket)
        key = self.key + ("0000_part_00" if self.parallel else "000") + _ENDINGS[self.compression]
        if not self.overwrite and await asyncio.to_thread(bucket.size, key) is not None:
            message = "Specified unload destination on S3 is not empty."
            raise RedshiftError(INTERNAL, message, hint="remove its files, or give ALLOWOVERWRITE")
        rows, content = await self._content(place)
        await asyncio.to_thread(bucket.put, key, content)
        if self.manifest:
            entry = {"url": f"s3://{self.bucket}/{key}"}
            await asyncio.to_thread(bucket.put, f"{self.key}manifest", json.dumps({"entries": [entry]}).encode())
        place.notices.append(f"UNLOAD completed, {rows} record(s) unloaded successfully.")
        return "UNLOAD"

    async def _content(self, place: TargetPlace) -> tuple[int, bytes]:
        delimiter = self.delimiter or ("," if self.form == "CSV" else "|")
        quote = '"' if self.form == "CSV" else ""
        rows = await place.rows(self.query)
        lines = [delimiter.join(_field(value, delimiter, quote, self.null) for value in row) for row in rows]
        content = "".join(f"{line}\n" for line in lines).encode()
        if self.compression == "GZIP":
            content = gzip.compress(content, mtime=0)
        elif self.compression == "ZSTD":
            content = pa.compress(content, "zstd", asbytes=True)
        return len(rows), content


def plan_unload(statement: Statement) -> Plan:
    """The plan for an UNLOAD statement."""
    reading = Reading(statement)
    reading.expect("UNLOAD")
    (query,) = reading.items()
    text = query.string()
    reading.expect("TO")
    bucket, key = read_source(reading)
    action = Unload(render(text, rewrite_tokens(tokenize(text))), bucket, key)
    action.read(reading)
    return Plan(statement.text, action=action)


def _field(value: str | None, delimiter: str, quote: str, null: str) -> str:
    if value is None:
        return null
    if quote and any(sign in value for sign in (delimiter, quote, "\n", "\r")):
        return quote + value.replace(quote, quote * 2) + quote
    return value
