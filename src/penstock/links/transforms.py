"""Makes transforms of what the file says, with the salts of the environment and the files of lookups.

On every machine anew: what travels is the file's spec, which has no secrets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.config.lookup_files import read_lookup
from penstock.config.secrets import secret
from penstock.core.errors import UsageError
from penstock.core.transforms.column_patterns import ColumnPatterns
from penstock.core.transforms.column_rules import Action, ColumnRule, ColumnRules, Drop
from penstock.core.transforms.columns import DropColumns, KeepColumns, RenameColumns
from penstock.core.transforms.expressions import ExpressionColumn
from penstock.core.transforms.filters import Filter
from penstock.core.transforms.hashes import HashColumns, Salt
from penstock.core.transforms.lookups import Lookup
from penstock.core.transforms.masks import MaskColumns
from penstock.core.transforms.type_names import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.config.columns import ColumnsSpec
    from penstock.config.transforms import TransformSpec
    from penstock.core.transforms.changes import Step


def open_transforms(specs: Sequence[TransformSpec]) -> tuple[Step, ...]:
    """Make the transforms of a spolt. UsageError for a salt or a lookup's file that is missing or unfit."""
    return tuple(_open(spec) for spec in specs)


def open_column_rules(spec: ColumnsSpec) -> ColumnRules:
    """Make the rules of a link. UsageError for a salt that is missing or unfit."""
    actions: list[tuple[tuple[str, ...], Action]] = [(spec.drop, Drop())]
    if spec.hash and spec.salt_env is not None:
        actions.append((spec.hash, open_salt(spec.salt_env)))
    actions += [(mask.columns, mask.masking) for mask in spec.mask]
    return ColumnRules(tuple(ColumnRule(ColumnPatterns(patterns), action) for patterns, action in actions if patterns))


def open_salt(name: str) -> Salt:
    """Read a salt from the environment variable `name`; UsageError if it is not set, or too short."""
    try:
        return Salt(name, secret(name).encode())
    except ValueError as error:
        hint = (
            "put a long random text there, and keep it: with another one, all hashes are others. openssl rand -hex 32"
        )
        raise UsageError(str(error), hint) from error


def _open(spec: TransformSpec) -> Step:  # noqa: PLR0911 - one return per transform
    if spec.filter is not None:
        return Filter(spec.filter)
    if spec.keep is not None:
        return KeepColumns(spec.keep)
    if spec.drop is not None:
        return DropColumns(spec.drop)
    if spec.rename is not None:
        return RenameColumns(tuple(spec.rename.items()))
    if spec.mask is not None:
        return MaskColumns(spec.mask.columns, spec.mask.masking)
    if spec.hash is not None:
        return HashColumns(spec.hash.columns, open_salt(spec.hash.salt_env))
    if spec.expression is not None:
        return ExpressionColumn(spec.expression.name, spec.expression.sql, parse_type(spec.expression.type))
    if spec.lookup is not None:
        return Lookup(read_lookup(spec.lookup), tuple(spec.lookup.match.items()))
    message = "a transform of the file is empty"
    raise UsageError(message, "say what it does, or leave it out")
