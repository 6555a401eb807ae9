"""Salted hashes in place of values that name a person. NULL stays NULL.

HMAC (RFC 2104) with SHA-256 (FIPS 180-4) over the representation of
`penstock.core.transforms.canonical`, keyed with the salt, as 64 hexadecimal
digits. Nothing else goes into it, so equal values have equal hashes in every
table, column and batch, and can be joined.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from penstock.core.tables import Column, TextType
from penstock.core.transforms.canonical import renderer
from penstock.core.transforms.transform import columns_of, declared, lay_out, refuse, require_columns
from penstock.core.transforms.treated import map_texts, with_treated_default

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from penstock.core.tables import TableSchema
    from penstock.core.transforms.transform import Values

SALT_BYTES_MIN: Final = 16
HASH_TYPE: Final = TextType(64, "ascii")
_BLOCK_BYTES: Final = 64
_INNER_PAD, _OUTER_PAD = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


@dataclass(frozen=True, slots=True)
class Salt:
    """The secret key of hashes, from the environment variable `name`. It is never printed, nor in an error."""

    name: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Raise ValueError for a salt that is too short to be secret."""
        if len(self.secret) < SALT_BYTES_MIN:
            message = f"the salt in {self.name} has {len(self.secret)} bytes, and needs {SALT_BYTES_MIN} at least"
            raise ValueError(message)

    @property
    def fingerprint(self) -> str:
        """Eight digits that tell whether a salt is the same as another; they tell no more of it than a hash does."""
        return hmac.digest(self.secret, b"penstock: which salt is this?", "sha256").hex()[:8]


@dataclass(frozen=True, slots=True)
class HashColumns:
    """The values of these columns become hashes; the columns become texts of 64 characters.

    A column of the key may be among them: 256 bits keep different keys apart.
    """

    columns: tuple[str, ...]
    salt: Salt

    def derive(self, schema: TableSchema) -> TableSchema:
        """See `Transform`."""
        require_columns(schema, self.columns)
        changed = {name: self._hashed_column(schema, schema.column(name)) for name in self.columns}
        return replace(schema, columns=tuple(changed.get(column.name, column) for column in schema.columns))

    def apply(self, schema: TableSchema, rows: pa.Table) -> tuple[TableSchema, pa.Table]:
        """See `Transform`."""
        after = self.derive(schema)
        hashed = [
            self._hash(column, values) if column.name in self.columns else values
            for column, values in zip(schema.columns, columns_of(schema, rows), strict=True)
        ]
        return lay_out(schema, rows, after, hashed)

    def _hashed_column(self, schema: TableSchema, column: Column) -> Column:
        try:
            renderer(column.type)
        except ValueError as error:
            reason = f"a column of type {declared(column)} cannot be hashed: {error}"
            raise refuse(schema, column.name, reason, "drop the column instead") from error
        plain = Column(column.name, HASH_TYPE, column.nullable, f"hash of {declared(column)}", comment=column.comment)
        return with_treated_default(column, plain, lambda value: self._hashed_constant(column, value))

    def _hashed_constant(self, column: Column, value: Values) -> str | None:
        hashed: str | None = self._hash(column, value)[0].as_py()
        return hashed

    def _hash(self, column: Column, values: Values) -> Values:
        render, keyed = renderer(column.type), _keyed(self.salt.secret)
        return map_texts(values, lambda value: keyed(render(value)))


def _keyed(secret: bytes) -> Callable[[bytes], str]:
    """Return HMAC-SHA-256 with this key, in hexadecimal digits.

    The two hashes begin with the key, which is the same for all values: they are
    copied from there, in half the time that `hmac.digest` takes.
    """
    key = (hashlib.sha256(secret).digest() if len(secret) > _BLOCK_BYTES else secret).ljust(_BLOCK_BYTES, b"\0")
    inner, outer = (hashlib.sha256(key.translate(pad)) for pad in (_INNER_PAD, _OUTER_PAD))

    def keyed(value: bytes) -> str:
        first, second = inner.copy(), outer.copy()
        first.update(value)
        second.update(first.digest())
        return second.hexdigest()

    return keyed
