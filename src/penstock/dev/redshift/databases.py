"""CREATE DATABASE and ALTER DATABASE, with an isolation level for all of a database's transactions.

Source: Amazon Redshift Database Developer Guide, "CREATE DATABASE", "ALTER DATABASE", "Isolation levels in Amazon
Redshift". SNAPSHOT is PostgreSQL's REPEATABLE READ, which is snapshot isolation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.dev.redshift.plan import Plan, Run
from penstock.dev.redshift.reading import Reading

if TYPE_CHECKING:
    from penstock.dev.redshift.plan import TargetPlace
    from penstock.dev.redshift.tokens import Statement

LEVELS = {"SNAPSHOT": "repeatable read", "SERIALIZABLE": "serializable"}
_DEFAULT = "SNAPSHOT"


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    """CREATE DATABASE by the stand-in's own user, for the client's."""

    name: str
    level: str

    async def run(self, place: TargetPlace) -> str:
        """Create it."""
        await place.cluster.execute(f'CREATE DATABASE {self.name} OWNER "{place.user}" TEMPLATE redshift_template')
        await place.cluster.execute(render_level(self.name, self.level))
        return "CREATE DATABASE"


def render_level(name: str, level: str) -> str:
    """The statement that gives a database its isolation level: SNAPSHOT or SERIALIZABLE."""
    return f"ALTER DATABASE {name} SET default_transaction_isolation = '{LEVELS[level]}'"


def plan_create_database(statement: Statement) -> Plan:
    """The plan for CREATE DATABASE name [[WITH] ISOLATION LEVEL ...]."""
    reading = Reading(statement)
    reading.expect("CREATE")
    reading.expect("DATABASE")
    name = reading.qualified_name()
    reading.take("WITH")
    action = CreateDatabase(name, _DEFAULT if reading.at_end() else _level(reading))
    return Plan(statement.text, action=action, never_in_block="CREATE DATABASE")


def plan_alter_database(statement: Statement) -> Plan:
    """The plan for ALTER DATABASE name ISOLATION LEVEL ...."""
    reading = Reading(statement)
    reading.expect("ALTER")
    reading.expect("DATABASE")
    name = reading.qualified_name()
    action = Run("ALTER DATABASE", (render_level(name, _level(reading)),))
    return Plan(statement.text, action=action, never_in_block="ALTER DATABASE")


def _level(reading: Reading) -> str:
    reading.expect("ISOLATION")
    reading.expect("LEVEL")
    level = reading.next().word
    if level not in LEVELS or not reading.at_end():
        raise reading.error(level)
    return level
