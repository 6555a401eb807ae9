"""Tables with columns and keys of every type, what is done to them, and how both ends of a pipeline are compared."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Final, TypeAlias

from tests.servers.pipeline.type_values import NUMBER, TEXT, WIDENINGS, Shown, comparable

from penstock.core.mysql.types.charsets import BYTES_PER_CHARACTER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.servers.pipeline.conftest import PipelineCase
    from tests.servers.pipeline.type_values import Values

Rows: TypeAlias = "Counter[tuple[object, ...]]"

_ADDS: Final = "('c', 'r', 'u+')"
_KEYS: Final = (
    "bigint unsigned", "decimal(38,10)", "double", "bit(33)", "bit(64)", "date", "time", "time(6)", "datetime(6)",
    "timestamp(6) null", "year", "char(10)", "varchar(20) character set latin1", "binary(5)", "uuid", "inet4", "inet6",
    "enum('a','é','x y','日本','it''s','')", "set('a','é','it''s')",
)  # fmt: skip
_SOME_OF_EVERY_CHARSET: Final = "aZ é Ж א 日本 한 ｱ ß ก ა"


class TypedTables:
    """The tables of a case. `types` are the server's, by declaration."""

    def __init__(self, case: PipelineCase, types: Mapping[str, Values]) -> None:
        """Make nothing yet."""
        self.case = case
        self._types = types
        keys = [declared for declared in _KEYS if declared in types]
        self._keys = {f"key_{number}": declared for number, declared in enumerate(keys)}
        self._all = {f"c{number}": declared for number, declared in enumerate(types)}
        self._shown: dict[str, dict[str, Shown]] = {}
        self._rows = max(len(values.literals) for values in types.values())

    def create(self) -> None:
        """Make the tables, and rows for the copy."""
        run(self.case, self._creates())
        run(self.case, self._copied())

    def change(self) -> None:
        """Insert, update and delete, so that every value passes through the log; then add columns, and widen some."""
        run(self.case, self._changes())
        run(self.case, self._changes_of_text_keys())
        run(self.case, self._additions())
        run(self.case, self._widenings())

    def assert_equal(self) -> None:
        """Both sides show the same rows."""
        unlike = {}
        for table, shown in self._shown.items():
            if said := _unlike(self._there(table, shown), self._arrived(table, shown), list(shown)):
                unlike[table] = said
        assert not unlike, unlike

    def _there(self, table: str, shown: Mapping[str, Shown]) -> Rows:
        columns = ", ".join(each.source.format(c=name) for name, each in shown.items())
        rows = Counter(tuple(map(comparable, row)) for row in ask(self.case, f"SELECT {columns} FROM {table}"))
        assert rows
        return rows

    def _arrived(self, table: str, shown: Mapping[str, Shown]) -> Rows:
        columns = ", ".join(f"{each.target.format(c=name)} AS {name}" for name, each in shown.items())
        path = f"{self.case.database}.{table}"
        if table.startswith("unkeyed"):
            columns = f"_op IN {_ADDS} AS came, {columns}"
        rows: Rows = Counter()
        for row in self.case.query(f"SELECT {columns} FROM {path}"):
            sign = 1 if row.pop("came", True) else -1
            rows[tuple(map(comparable, row.values()))] += sign
        return Counter({row: count for row, count in rows.items() if count})

    def _creates(self) -> Iterator[str]:
        columns = ", ".join(f"{name} {declared}" for name, declared in self._all.items())
        shown = {name: self._types[declared].shown for name, declared in self._all.items()}
        yield self._create("every_type", f"id INT PRIMARY KEY, {columns}", {"id": NUMBER} | shown)
        yield self._create("unkeyed", f"id INT, {columns}", {"id": NUMBER} | shown)
        for table, declared in self._keys.items():
            key = {"k": self._types[declared].shown, "v": NUMBER}
            yield self._create(table, f"k {declared.removesuffix(' null')} PRIMARY KEY, v INT", key)
        text_key = "k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT"
        yield self._create("text_key", text_key, {"k": TEXT, "v": NUMBER})
        yield self._create("grown", "id INT PRIMARY KEY", {"id": NUMBER})
        yield self._create("unkeyed_grown", "id INT", {"id": NUMBER})
        shown = {f"w{number}": each.shown for number, each in enumerate(WIDENINGS)}
        narrow = ", ".join(f"w{number} {each.before}" for number, each in enumerate(WIDENINGS))
        yield self._create("widened", f"id INT PRIMARY KEY, {narrow}", {"id": NUMBER} | shown)
        yield self._create("unkeyed_widened", f"id INT, {narrow}", {"id": NUMBER} | shown)
        keys = ", ".join(f"w{number}" for number, each in enumerate(WIDENINGS) if each.in_key)
        narrow = narrow.replace(" NULL", "")
        yield self._create("widened_keys", f"id INT, {narrow}, PRIMARY KEY ({keys})", {"id": NUMBER} | shown)
        charsets = {f"t_{name}": name for name in self._charsets()}
        texts = ", ".join(f"{name} VARCHAR(40) CHARACTER SET {charset}" for name, charset in charsets.items())
        yield self._create("charsets", f"id INT PRIMARY KEY, {texts}", {"id": NUMBER} | dict.fromkeys(charsets, TEXT))

    def _charsets(self) -> list[str]:
        known = ask(self.case, "SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")
        return [str(name) for (name,) in known if name in BYTES_PER_CHARACTER]

    def _create(self, table: str, definition: str, shown: dict[str, Shown]) -> str:
        self._shown[table] = shown
        return f"CREATE TABLE {table} ({definition})"

    def _copied(self) -> Iterator[str]:
        for number in range(self._rows):
            yield self._insert("every_type", number, number)
            yield self._insert("unkeyed", number, number)
        for table in ("every_type", "unkeyed"):
            yield f"INSERT INTO {table} (id) VALUES (1000)"
        for table, declared in self._keys.items():
            for literal in self._types[declared].literals[::2]:
                yield f"INSERT INTO {table} VALUES ({literal}, 1)"
        yield "INSERT INTO text_key VALUES ('a', 1), ('b ', 2), ('ß', 3), ('c', 4), ('é  ', 5), ('🐬', 6)"
        for table in ("grown", "unkeyed_grown"):
            yield f"INSERT INTO {table} VALUES (1), (2)"
        for table in ("widened", "unkeyed_widened", "widened_keys"):
            yield f"INSERT INTO {table} VALUES (1, {_narrow(0)}), (2, {_narrow(1)})"
        for table in ("widened", "unkeyed_widened"):
            yield f"INSERT INTO {table} (id) VALUES (3)"
        yield self._insert_texts(1)

    def _insert_texts(self, id_: int) -> str:
        # A server writes a question mark for what a character set does not have.
        texts = ", ".join(repr(_SOME_OF_EVERY_CHARSET) for _ in self._charsets())
        return f"INSERT INTO charsets VALUES ({id_}, {texts})"

    def _changes(self) -> Iterator[str]:
        for table in ("every_type", "unkeyed"):
            for number in range(self._rows):
                yield self._insert(table, number + 100, number)
            changed = ", ".join(f"{name} = {self._literal(declared, 1)}" for name, declared in self._all.items())
            yield f"UPDATE {table} SET {changed} WHERE id IN (0, 1000)"
            emptied = ", ".join(f"{name} = NULL" for name in self._all)
            yield f"UPDATE {table} SET {emptied} WHERE id IN (1, 101)"
            yield f"DELETE FROM {table} WHERE id IN (2, 102)"
        for table, declared in self._keys.items():
            first, second, *rest = self._types[declared].literals
            yield f"INSERT INTO {table} VALUES ({second}, 2)"
            for literal in rest[1::2]:
                yield f"INSERT INTO {table} VALUES ({literal}, 3)"
            yield f"DELETE FROM {table} WHERE k = {first}"
            yield f"UPDATE {table} SET v = 4 WHERE k = {(rest or [second])[0]}"
            yield f"UPDATE {table} SET k = {first} WHERE k = {second}"
        yield self._insert_texts(2)

    def _changes_of_text_keys(self) -> Iterator[str]:
        """To the source 'a' and 'A' are one key, and 'b' and 'b  '; what is stored changes all the same."""
        yield "UPDATE text_key SET k = 'A' WHERE k = 'a'"
        yield "UPDATE text_key SET k = 'b' WHERE k = 'B'"
        yield "UPDATE text_key SET v = 20 WHERE k = 'b    '"
        yield "UPDATE text_key SET k = 'b   ' WHERE k = 'b'"
        yield "DELETE FROM text_key WHERE k = 'C'"
        yield "INSERT INTO text_key VALUES ('C ', 40), ('d', 50)"
        yield "REPLACE INTO text_key VALUES ('D  ', 51)"
        yield "INSERT INTO text_key VALUES ('E', 7) ON DUPLICATE KEY UPDATE v = 52"

    def _additions(self) -> Iterator[str]:
        known = {number: each for number, each in enumerate(self._types.items()) if each[1].default}
        filled = {f"d{number}": declared for number, (declared, _) in known.items()}
        never_null = {f"n{number}": declared for number, (declared, _) in known.items()}
        with_default = [
            f"ADD COLUMN d{n} {declared} DEFAULT {values.default}" for n, (declared, values) in known.items()
        ]
        required = [
            f"ADD COLUMN n{n} {declared} NOT NULL DEFAULT {values.default}" for n, (declared, values) in known.items()
        ]
        for table in ("grown", "unkeyed_grown"):
            yield f"INSERT INTO {table} (id) VALUES (3), (4)"
            without = ", ".join(f"ADD COLUMN {name} {declared}" for name, declared in self._all.items())
            yield f"ALTER TABLE {table} {without}"
            yield self._insert(table, 5, 1)
            yield f"ALTER TABLE {table} {', '.join(with_default)}"
            yield f"ALTER TABLE {table} {', '.join(required)}"
            yield self._insert(table, 6, 0)
            yield f"UPDATE {table} SET {', '.join(f'{name} = NULL' for name in filled)} WHERE id = 2"
            yield f"UPDATE {table} SET c0 = 1 WHERE id = 4"
            yield f"DELETE FROM {table} WHERE id = 3"
            every = self._all | filled | never_null
            self._shown[table] |= {name: self._types[declared].shown for name, declared in every.items()}

    def _widenings(self) -> Iterator[str]:
        changes = ", ".join(f"MODIFY w{number} {each.after}" for number, each in enumerate(WIDENINGS))
        widest = ", ".join(each.wide for each in WIDENINGS)
        for table in ("widened", "unkeyed_widened", "widened_keys"):
            in_key = table == "widened_keys"
            if not in_key:
                yield f"INSERT INTO {table} VALUES (4, {_narrow(0)}), (5, {_narrow(1)})"
                yield f"DELETE FROM {table} WHERE id = 4"
            yield f"ALTER TABLE {table} {changes.replace(' NULL', '') if in_key else changes}"
            yield f"INSERT INTO {table} VALUES (10, {widest})"
            yield f"UPDATE {table} SET id = 11 WHERE id = 1"
            yield f"DELETE FROM {table} WHERE id = 2"
            for number, each in enumerate(WIDENINGS):
                yield f"UPDATE {table} SET w{number} = {each.narrow[1]} WHERE id = 11"

    def _insert(self, table: str, id_: int, number: int) -> str:
        literals = [self._literal(declared, number) for declared in self._all.values()]
        return f"INSERT INTO {table} (id, {', '.join(self._all)}) VALUES ({id_}, {', '.join(literals)})"

    def _literal(self, declared: str, number: int) -> str:
        literals = self._types[declared].literals
        return literals[number % len(literals)]


def run(case: PipelineCase, statements: Iterator[str]) -> None:
    """Commit each of `statements` in the source, in UTC, dates that no calendar has and invalid labels included."""
    with closing(case.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'")
        for statement in statements:
            cursor.execute(statement)


def ask(case: PipelineCase, sql: str) -> Sequence[tuple[object, ...]]:
    """Return what the source answers, in UTC."""
    with closing(case.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(sql)
        return cursor.fetchall()


def _narrow(which: int) -> str:
    return ", ".join(each.narrow[which] for each in WIDENINGS)


def _unlike(there: Rows, found: Rows, names: Sequence[str]) -> list[str]:
    """Say how the rows differ: each missing one by its difference from the likest surplus one."""
    surplus = found - there
    said = []
    for row in there - found:
        unequal = [[(name, mine, its) for name, mine, its in zip(names, row, other, strict=True) if mine != its]
                   for other in surplus]  # fmt: skip
        said.append(f"{row[0]!r}: {min(unequal, key=len, default='is missing')}"[:1000])
    if not said:
        said += [f"{row[0]!r} is surplus" for row in surplus]
    return said
