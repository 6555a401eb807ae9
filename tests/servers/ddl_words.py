"""Statements for stories of tables that change, with gaps that are filled from what the source has by then.

`<t 3>` is one of the tables that there are, `<c 3>` a column of the table named last, `<values 3>` some rows
for it and `<set 3>` other values for some of its columns. A number chooses, and stands for a seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

Template = str

TABLES: Final = ("a", "b", "c", "A", "`d.e`", "ü€", "`x``y`", "`select`")
COLUMNS: Final = ("c1", "c2", "c3", "C1", "`c 4`", "c€", "`c``5`", "`select`", "`drop`")
TYPES: Final[dict[str, tuple[str, ...]]] = {
    "int": ("0", "7", "-1"),
    "int unsigned": ("0", "4294967295"),
    "bigint": ("9223372036854775807", "'12'"),
    "tinyint": ("5", "TRUE"),
    "decimal(10,3)": ("1.5", "-0.125"),
    "decimal(12,4)": ("1.5", "'2'"),
    "float": ("1.5", "0.1", "1e10"),
    "double": ("0.1", "1e300", "-2.5"),
    "bit(9)": ("b'101'", "5"),
    "date": ("'2020-01-02'", "'20200102'"),
    "time(3)": ("'-01:02:03.5'", "'1:2'"),
    "datetime": ("'2020-01-02 03:04:05'", "CURRENT_TIMESTAMP"),
    "datetime(6)": ("'2020-01-02 03:04:05.1'", "'2020-01-02'"),
    "timestamp": ("'2020-01-02 03:04:05'", "CURRENT_TIMESTAMP"),
    "timestamp(2) null": ("'2020-01-02 03:04:05.25'",),
    "year": ("2020", "'1999'"),
    "char(5)": ("'a '", "''", "'é'"),
    "varchar(5)": ("'a '", "''''", "'\\\\'"),
    "varchar(20)": ("'C:\\new'", "'é日🐬'", "'a\"b'", "'-- x'", "'/* x */'"),
    "varchar(20) character set latin1": ("'é'", "'€'"),
    "varchar(20) character set gbk": ("'中文'",),
    "varchar(20) character set utf8": ("'é日'",),
    "char(3) character set ucs2": ("'日'",),
    "enum('a','é','x y')": ("'a'", "'é'", "2"),
    "enum('a','é','x y','C:\\new')": ("'a'",),
    "set('a','b','c')": ("'b,a'", "''", "3"),
    "varbinary(5)": ("x'00ff'", "'ab'"),
    "binary(3)": ("'a'",),
    "tinytext": ("'a'",),
    "text": ("'a'",),
    "text character set latin1": ("'é'",),
    "blob": ("'a'",),
    "real": ("1.25",),
    "national varchar(5)": ("'é'",),
}
NUMBERS: Final = st.integers(0, 99)
_TABLE: Final = NUMBERS.map("<t {}>".format)
_COLUMN: Final = NUMBERS.map("<c {}>".format)
_NEW_TABLE: Final = st.sampled_from(TABLES)
_NEW_COLUMN: Final = st.sampled_from(COLUMNS)
_NULLS: Final = st.sampled_from(["", "", " NULL", " NOT NULL"])
_OTHERS: Final = st.sampled_from(["", "", "", " COMMENT 'drop; -- x'", " INVISIBLE"])
_EXPRESSIONS: Final = st.sampled_from(["id + 1", "concat('x', id)", "coalesce(c1, 0)", "length('a,b')"])
_CHARSETS: Final = st.sampled_from(["latin1", "utf8mb4", "gbk", "utf8mb3", "ucs2"])


def _literals(type_: str) -> st.SearchStrategy[str]:
    defaults = st.sampled_from([f" DEFAULT {literal}" for literal in TYPES[type_]])
    return st.just("") | st.just(" DEFAULT NULL") | defaults


_TYPED: Final = st.sampled_from(sorted(TYPES)).flatmap(
    lambda type_: st.builds("{}{}{}{}".format, st.just(type_), _NULLS, _literals(type_), _OTHERS)
)
_GENERATED: Final = st.builds(
    "{} GENERATED ALWAYS AS ({}) {}".format,
    st.sampled_from(["int", "varchar(30)", "bigint"]),
    _EXPRESSIONS,
    st.sampled_from(["VIRTUAL", "STORED"]),
)
_DECLARED: Final = _TYPED | _TYPED | _TYPED | _GENERATED
_PLACE: Final = st.sampled_from(["", "", " FIRST"]) | _COLUMN.map(" AFTER {}".format)
_DEFINED: Final = st.builds("{} {}".format, _NEW_COLUMN, _DECLARED)

_KEYS: Final = st.sampled_from([
    "id INT PRIMARY KEY", "id INT PRIMARY KEY", "id INT PRIMARY KEY", "id INT", "id INT NOT NULL UNIQUE",
    "id INT AUTO_INCREMENT PRIMARY KEY", "id BIGINT, k INT DEFAULT 4, PRIMARY KEY (id, k)",
    "id INT PRIMARY KEY, u BLOB, UNIQUE (u)",
])  # fmt: skip
_TABLE_OPTIONS: Final = st.sampled_from([
    "", "", "", " CHARACTER SET latin1", " COMMENT 'a;b'", " PARTITION BY HASH (id) PARTITIONS 2",
    " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN MAXVALUE)",
    " /*!50100 PARTITION BY KEY (id) PARTITIONS 3 */", " ENGINE=MyISAM",
])  # fmt: skip
_CREATES: Final = st.builds(
    "{} {} ({}, {}){}".format,
    st.sampled_from(["CREATE TABLE", "CREATE TABLE", "CREATE TABLE IF NOT EXISTS", "<or replace>"]),
    _NEW_TABLE,
    _KEYS,
    st.lists(_DEFINED, min_size=1, max_size=4).map(", ".join),
    _TABLE_OPTIONS,
)
_COPIES: Final = st.builds(
    "{} {} {}".format,
    st.sampled_from(["CREATE TABLE", "CREATE TABLE IF NOT EXISTS", "<or replace>"]),
    _NEW_TABLE,
    _TABLE.flatmap(lambda table: st.sampled_from([f"LIKE {table}", f"SELECT * FROM {table}", "AS SELECT 1 AS id"])),
)
_CLAUSES: Final = st.one_of(
    st.builds("ADD COLUMN {}{}".format, _DEFINED, _PLACE),
    st.builds("ADD COLUMN {}{}".format, _DEFINED, _PLACE),
    st.builds("ADD ({}, {})".format, _DEFINED, _DEFINED),
    st.builds("DROP {}".format, _COLUMN),
    st.builds("DROP COLUMN {}".format, _COLUMN),
    st.builds("CHANGE {} {} {}{}".format, _COLUMN, _NEW_COLUMN, _DECLARED, _PLACE),
    st.builds("MODIFY {} {}{}".format, _COLUMN, _DECLARED, _PLACE),
    st.builds("RENAME COLUMN {} TO {}".format, _COLUMN, _NEW_COLUMN),
    st.builds("RENAME COLUMN {0} TO {1}, RENAME COLUMN {1} TO {0}".format, _COLUMN, _NEW_COLUMN),
    st.builds("ALTER COLUMN {} SET DEFAULT {}".format, _COLUMN, st.sampled_from(["1", "'a'", "NULL", "''"])),
    st.builds("ALTER COLUMN {} DROP DEFAULT".format, _COLUMN),
    st.builds("ADD {}INDEX ({})".format, st.sampled_from(["", "UNIQUE "]), _COLUMN),
    st.builds("DROP PRIMARY KEY, ADD PRIMARY KEY ({})".format, _COLUMN),
    st.just("DROP PRIMARY KEY"),
    st.builds("ADD PRIMARY KEY ({})".format, _COLUMN),
    st.builds("CONVERT TO CHARACTER SET {}".format, _CHARSETS),
    st.builds("DEFAULT CHARACTER SET {}".format, _CHARSETS),
    st.builds("RENAME {}{}".format, st.sampled_from(["", "TO ", "AS "]), _NEW_TABLE),
    st.sampled_from([
        "FORCE", "ENGINE=InnoDB", "COMMENT = 'rename to b'", "ROW_FORMAT=DYNAMIC", "ORDER BY id", "ALGORITHM=INSTANT",
        "REMOVE PARTITIONING", "PARTITION BY HASH (id) PARTITIONS 3", "COALESCE PARTITION 1", "DROP PARTITION p0",
        "TRUNCATE PARTITION p1", "ADD PARTITION PARTITIONS 1", "REORGANIZE PARTITION", "ADD CHECK (id < 1000000)",
        "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN MAXVALUE)",
    ]),
    st.builds("EXCHANGE PARTITION p0 WITH TABLE {}".format, _TABLE),
)  # fmt: skip
_ALTERS: Final = st.builds(
    "<noise {}>ALTER TABLE {} {}".format, NUMBERS, _TABLE, st.lists(_CLAUSES, min_size=1, max_size=3).map(", ".join)
)
_NAMES: Final = st.one_of(
    st.builds("RENAME TABLE {} TO {}".format, _TABLE, _NEW_TABLE),
    st.builds("RENAME TABLE {0} TO tmp, {1} TO {0}, tmp TO {1}".format, _TABLE, _TABLE),
    st.builds("RENAME TABLE {0} TO {2}, {1} TO {0}".format, _TABLE, _TABLE, _NEW_TABLE),
    st.builds("DROP TABLE {}".format, _TABLE),
    st.builds("DROP TABLE IF EXISTS {}, {}".format, _TABLE, _NEW_TABLE),
    st.builds("<noise {}>TRUNCATE {}{}".format, NUMBERS, st.sampled_from(["", "TABLE "]), _TABLE),
    st.builds("CREATE {}INDEX i ON {} ({})".format, st.sampled_from(["", "UNIQUE "]), _TABLE, _COLUMN),
    st.builds("DROP INDEX {} ON {}".format, st.sampled_from(["i", "`PRIMARY`"]), _TABLE),
    st.builds("ALTER DATABASE CHARACTER SET {}".format, _CHARSETS),
)
_INSERTS: Final = st.builds("INSERT IGNORE INTO {} <values {}>".format, _TABLE, NUMBERS)
_CHANGES: Final = st.one_of(
    _INSERTS,
    _INSERTS,
    st.builds("REPLACE INTO {} <values {}>".format, _TABLE, NUMBERS),
    st.builds("INSERT IGNORE INTO {} <values {}> ON DUPLICATE KEY UPDATE <set {}>".format, _TABLE, NUMBERS, NUMBERS),
    st.builds("UPDATE IGNORE {} SET <set {}> LIMIT 2".format, _TABLE, NUMBERS),
    st.builds("UPDATE IGNORE {} SET <set {}>".format, _TABLE, NUMBERS),
    st.builds("UPDATE IGNORE {} AS x JOIN {} AS y ON x.id = y.id SET x.id = x.id + 50".format, _TABLE, _TABLE),
    st.builds("DELETE FROM {} LIMIT 1".format, _TABLE),
    st.builds("DELETE x, y FROM {} AS x JOIN {} AS y ON x.id = y.id WHERE x.id < 3".format, _TABLE, _TABLE),
    st.builds("INSERT IGNORE INTO {} SELECT * FROM {}".format, _TABLE, _TABLE),
)
_SESSIONS: Final = st.sampled_from([
    *(f"SET SESSION sql_mode = '{mode}'" for mode in (
        "", "ANSI", "NO_BACKSLASH_ESCAPES", "STRICT_TRANS_TABLES", "PIPES_AS_CONCAT,STRICT_ALL_TABLES",
        "STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE", "ALLOW_INVALID_DATES", "PAD_CHAR_TO_FULL_LENGTH",
        "NO_BACKSLASH_ESCAPES,ANSI_QUOTES,STRICT_ALL_TABLES", "REAL_AS_FLOAT", "IGNORE_SPACE",
    )),
    *(f"SET NAMES {name}" for name in ("latin1", "gbk", "sjis", "utf8mb4", "utf8mb4")),
    "SET SESSION explicit_defaults_for_timestamp = 1 - @@explicit_defaults_for_timestamp",
    "SET SESSION time_zone = '+05:00'", "SET SESSION collation_server = latin1_swedish_ci",
])  # fmt: skip
_CONTROLS: Final = st.sampled_from([
    "START TRANSACTION", "START TRANSACTION", "COMMIT", "ROLLBACK", "SAVEPOINT s", "SAVEPOINT S2", "ROLLBACK TO s",
    "ROLLBACK TO s2", "RELEASE SAVEPOINT s", "CREATE TEMPORARY TABLE t2 (id INT)", "INSERT INTO t2 VALUES (1)",
    "DROP TEMPORARY TABLE t2",
])  # fmt: skip
_XA: Final = st.builds(
    "XA START 'x';;{};;{};;XA END 'x';;{}".format,
    _CHANGES,
    _CHANGES,
    st.sampled_from(["XA COMMIT 'x' ONE PHASE", "XA PREPARE 'x';;XA COMMIT 'x'", "XA PREPARE 'x';;XA ROLLBACK 'x'"]),
)
_TEMPORARY: Final = st.builds(
    "CREATE TEMPORARY TABLE {0} (id INT);;INSERT INTO {0} VALUES (1);;{1};;DROP TEMPORARY TABLE {0}".format,
    _TABLE,
    st.sampled_from(["TRUNCATE TABLE <same>", "ALTER TABLE <same> ADD x INT", "CREATE INDEX i ON <same> (id)"]),
)
_STATEMENTS: Final = st.builds(
    "SET SESSION binlog_format = {};;{};;SET SESSION binlog_format = ROW".format,
    st.sampled_from(["STATEMENT", "MIXED"]),
    _TEMPORARY | _COPIES | _NAMES | _ALTERS,
)
_OTHER_OBJECTS: Final = st.one_of(
    st.builds(
        "CREATE TRIGGER tr AFTER INSERT ON {} FOR EACH ROW DELETE FROM {} WHERE id = NEW.id".format, _TABLE, _TABLE
    ),
    st.just("DROP TRIGGER tr"),
    st.builds("CREATE OR REPLACE VIEW v AS SELECT * FROM {}".format, _TABLE),
    st.builds("ALTER TABLE {} ADD FOREIGN KEY (id) REFERENCES {} (id)".format, _TABLE, _TABLE),
    st.builds("RENAME TABLE v TO w, {} TO {}".format, _TABLE, _NEW_TABLE),
)
_PERIOD: Final = (
    "ADD rs TIMESTAMP(6) GENERATED ALWAYS AS ROW START, ADD re TIMESTAMP(6) GENERATED ALWAYS AS ROW END, "
    "ADD PERIOD FOR SYSTEM_TIME(rs, re), ADD SYSTEM VERSIONING"
)
OF_MARIADB: Final = st.one_of(
    st.builds("ALTER TABLE {} {}".format, _TABLE, st.sampled_from([
        "ADD SYSTEM VERSIONING", "DROP SYSTEM VERSIONING", "ADD COLUMN IF NOT EXISTS c1 INT", "DROP IF EXISTS c1",
        _PERIOD,
        "CHANGE COLUMN IF EXISTS c1 c3 BIGINT", "CONVERT PARTITION p0 TO TABLE c", "RENAME COLUMN IF EXISTS c2 TO c3",
    ])),
    st.builds("CREATE TABLE {} (id INT{}, c1 INT) WITH SYSTEM VERSIONING".format, _NEW_TABLE, st.sampled_from(
        ["", " PRIMARY KEY"])),
    st.builds("DELETE HISTORY FROM {}".format, _TABLE),
    st.builds("ALTER IGNORE TABLE {} ADD UNIQUE ({})".format, _TABLE, _COLUMN),
    st.builds("RENAME TABLE IF EXISTS b TO c, {} TO a".format, _TABLE),
    st.builds("CREATE TABLE {} AS VALUES (1, 'a'), (2, 'b')".format, _NEW_TABLE),
    st.sampled_from([
        "CREATE SEQUENCE s", "SELECT NEXTVAL(s)", "ALTER SEQUENCE s RESTART 50", "DROP SEQUENCE IF EXISTS s",
        "DROP TABLE s", "RENAME TABLE s TO a", "SET SESSION system_versioning_alter_history = KEEP",
        "SET SESSION old_mode = ''", "SET SESSION sql_mode = 'ORACLE'", "SET SESSION sql_mode = 'MAXDB'",
        "SET SESSION sql_mode = 'EMPTY_STRING_IS_NULL'", "SET SESSION alter_algorithm = 'INSTANT'",
        "CREATE TABLE b (id UUID PRIMARY KEY, i INET6 DEFAULT '::1')",
    ]),
)  # fmt: skip
OF_MYSQL: Final = st.one_of(
    st.builds("CREATE TABLE {} TABLE {}".format, _NEW_TABLE, _TABLE),
    st.builds("CREATE TABLE {} VALUES ROW(1, 'a'), ROW(2, 'b')".format, _NEW_TABLE),
    st.builds("INSERT IGNORE INTO {} TABLE {}".format, _TABLE, _TABLE),
    st.builds("ALTER TABLE {} ADD INDEX ((id + 1))".format, _TABLE),
    st.builds("ALTER TABLE {} ADD COLUMN {} JSON, ADD v VECTOR(3)".format, _TABLE, _NEW_COLUMN),
    st.builds("ALTER TABLE {} DROP COLUMN {}, ALGORITHM=INSTANT".format, _TABLE, _COLUMN),
    st.builds("ALTER TABLE {} ADD COLUMN {} INT DEFAULT (id * 2)".format, _TABLE, _NEW_COLUMN),
    st.sampled_from([
        "SET SESSION sql_generate_invisible_primary_key = 1 - @@sql_generate_invisible_primary_key",
        "SET SESSION default_collation_for_utf8mb4 = utf8mb4_general_ci",
    ]),
)  # fmt: skip


def stories(own: st.SearchStrategy[Template]) -> st.SearchStrategy[Sequence[Template]]:
    """Some tables with rows, and what is then done; `own` are statements of one kind of server."""
    begins = st.tuples(_CREATES, _INSERTS, _CREATES, _INSERTS)
    weighted = [*[_CHANGES] * 4, *[_ALTERS] * 5, *[_NAMES] * 2, _CREATES, _COPIES, _SESSIONS, _CONTROLS, own]
    then = st.lists(st.one_of(*weighted, _XA, _TEMPORARY, _STATEMENTS, _OTHER_OBJECTS), min_size=5, max_size=25)
    return st.builds(lambda first, rest: (*first, *rest), begins, then)
