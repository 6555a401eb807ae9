"""Whether a statement of the log may have made another table of one, or other rows of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.mysql.statements.ddl import Harmless, RowStatement, TableDdl, TransactionControl, classify

if TYPE_CHECKING:
    from penstock.core.mysql.log.log_items import StatementLogged
    from penstock.core.tables import TableId

_OF_ALL = frozenset({"unknown", "create_schema", "drop_schema", "alter_schema"})


def concerns(statement: StatementLogged, table: TableId) -> bool:
    """Whether `statement` names `table`, in any case of letters, or may concern it without."""
    match classify(statement.sql, statement.session.sql_mode):
        case Harmless() | TransactionControl():
            return False
        case RowStatement():
            return True
        case TableDdl() as ddl:
            named = {((schema or statement.default_schema).casefold(), name.casefold()) for schema, name in ddl.tables}
            return ddl.action in _OF_ALL or (table.schema.casefold(), table.name.casefold()) in named
