"""Random tables with random rows on real servers: what the log decodes to is what a SELECT returns.

Short as a test; `make fuzz` goes on for longer.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from typing import Literal as Choice

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.servers.json_values import DIFFERENCES, DOCUMENTS
from tests.unit.mysql_log.single_items import one_by_one

from penstock.adapters.mysql.binlog_stream import open_binlog
from penstock.adapters.mysql.catalog import read_tables
from penstock.adapters.mysql.connection import MysqlServer, connect
from penstock.adapters.mysql.history import head
from penstock.adapters.mysql.initial_snapshot import open_initial_snapshot
from penstock.core.changes import Op
from penstock.core.mysql.rows import decode
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.table_policy import TablePolicy
from penstock.core.tables import TableId
from penstock.ports.log import Stop

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.core.changes import RowBatch
    from penstock.core.tables import TableSchema
    from penstock.core.zero_dates import ZeroDates
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

Literal = str
RowImage = Choice["FULL", "MINIMAL", "NOBLOB", "FULL_NODUP"]
Row = dict[str, Any]

_SERVER_ID: Final = 901_777
_TABLE: Final = TableId("types_fuzz", "t")


def _quoted(text: str) -> Literal:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _integers(bits: int, *, unsigned: bool) -> st.SearchStrategy[Literal]:
    low = 0 if unsigned else -(2 ** (bits - 1))
    return st.integers(low, low + 2**bits - 1).map(str)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Literal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(
        lambda number: f"{number}e-{scale}" if precision < 16 else _point(number, scale)
    )


def _point(number: int, scale: int) -> Literal:
    digits = str(abs(number)).zfill(scale + 1)
    return f"{'-' if number < 0 else ''}{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}"


def _texts(alphabet: str, longest: int) -> st.SearchStrategy[Literal]:
    # Letters of every set, and what servers treat in ways of their own: spaces at the end, quotes, NUL.
    return st.text(st.sampled_from(alphabet + "aZ 0'\"\\%_\n\t"), max_size=longest).map(_quoted)


def _bytes(longest: int) -> st.SearchStrategy[Literal]:
    return st.binary(max_size=longest).map(lambda raw: f"x'{raw.hex()}'")


def _clock(digits: int) -> st.SearchStrategy[str]:
    fraction = st.integers(0, 10**digits - 1).map(lambda number: f".{number:0{digits}}" if digits else "")
    return st.builds("{:02}:{:02}:{:02}{}".format, st.integers(0, 23), *[st.integers(0, 59)] * 2, fraction)


def _times(digits: int) -> st.SearchStrategy[Literal]:
    fraction = st.integers(0, 10**digits - 1).map(lambda number: f".{number:0{digits}}" if digits else "")
    numbers = (st.integers(0, 838), st.integers(0, 59), st.integers(0, 59))
    spans = st.builds("'{}{}:{:02}:{:02}{}'".format, st.sampled_from(["", "-"]), *numbers, fraction)
    return spans | st.sampled_from(["'-838:59:59'", "'838:59:59'", "'00:00:00'"])


def _moments(first: str, last: str, digits: int) -> st.SearchStrategy[Literal]:
    import datetime as dt  # noqa: PLC0415

    days = st.dates(dt.date.fromisoformat(first), dt.date.fromisoformat(last))
    return st.builds("'{} {}'".format, days, _clock(digits))


def _sets(labels: Sequence[str]) -> st.SearchStrategy[Literal]:
    return st.sets(st.sampled_from(labels), max_size=5).map(lambda some: _quoted(",".join(sorted(some))))


_POINTS: Final = st.builds("{} {}".format, st.integers(-90, 90), st.integers(-90, 90))
_GEOMETRIES: Final = st.builds(
    "ST_GeomFromText('{}', {})".format,
    st.one_of(
        _POINTS.map("POINT({})".format),
        st.lists(_POINTS, min_size=2, max_size=4, unique=True).map(lambda some: f"LINESTRING({','.join(some)})"),
        st.just("GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1 1))"),
    ),
    st.sampled_from([0, 4326]),
)
_LABELS: Final = ("a", "é", "x y", "日本", "it''s")
_MANY: Final = tuple(f"label {number}" for number in range(300))

COMMON: Final[dict[str, st.SearchStrategy[Literal]]] = {
    **{f"{name}": _integers(bits, unsigned=False) for name, bits in (("tinyint", 8), ("smallint", 16), ("int", 32))},
    **{f"{name} unsigned": _integers(bits, unsigned=True) for name, bits in (("mediumint", 24), ("bigint", 64))},
    "mediumint": _integers(24, unsigned=False),
    "bigint": _integers(64, unsigned=False),
    **{f"decimal({p},{s})": _decimals(p, s) for p, s in ((1, 0), (9, 9), (18, 4), (38, 10), (65, 30))},
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    "double": st.floats(allow_nan=False, allow_infinity=False).map(repr),
    **{f"bit({bits})": st.integers(0, 2**bits - 1).map(lambda number: f"b'{number:b}'") for bits in (1, 8, 13, 33, 64)},
    "date": st.dates().map(lambda day: f"'{day}'"),
    **{f"time({digits})": _times(digits) for digits in (0, 1, 4, 6)},
    **{f"datetime({digits})": _moments("0001-01-01", "9999-12-30", digits) for digits in (0, 1, 3, 6)},
    **{f"timestamp({digits}) null": _moments("1970-01-03", "2038-01-17", digits) for digits in (0, 2, 6)},
    "year": (st.just(0) | st.integers(1901, 2155)).map(str),
    "char(10)": _texts("é日", 10),
    "varchar(300)": _texts("é日🐬", 300),
    "longtext": _texts("é日🐬", 2000),
    "varchar(20) character set latin1": _texts("é€\x81", 20),
    "char(20) character set utf16": _texts("é日🐬", 20),
    "varchar(20) character set ucs2": _texts("é日", 20),
    "varchar(20) character set utf32": _texts("日🐬", 20),
    "char(20) character set sjis": _texts("日本ｱ", 20),
    "varchar(20) character set ujis": _texts("日本ｱ", 20),
    "varchar(20) character set gbk": _texts("中文", 20),
    "varchar(20) character set big5": _texts("中文", 20),
    "tinytext character set cp1251": _texts("Жж", 50),
    "varchar(20) character set swe7": st.text(st.sampled_from("aÄÖå é"), max_size=20).map(_quoted),
    "binary(5)": _bytes(5),
    "varbinary(300)": _bytes(300),
    "tinyblob": _bytes(200),
    "longblob": _bytes(2000),
    "enum('a','é','x y','日本','it''s')": st.sampled_from(_LABELS).map(lambda label: f"'{label}'"),
    "enum(" + ",".join(f"'{label}'" for label in _MANY) + ")": st.sampled_from(_MANY).map(_quoted),
    "set('a','b','c')": _sets(("a", "b", "c")),
    "set(" + ",".join(f"'{label}'" for label in _MANY[:64]) + ")": _sets(_MANY[:64]),
    "geometry": _GEOMETRIES,
}
_WORDS: Final = st.integers(0, 0xFFFF).map("{:04x}".format)
_HEXTETS: Final = st.lists(st.just("0") | _WORDS, min_size=8, max_size=8).map(":".join)
MARIADB: Final = {
    "uuid": st.uuids().map(lambda uuid: f"'{uuid}'") | st.just("'00000000-0000-0000-0000-000000000000'"),
    "inet4": st.ip_addresses(v=4).map(lambda address: f"'{address}'"),
    "inet6": (_HEXTETS | st.sampled_from(["::", "::1", "::ffff:1.2.3.4", "::1.2.3.4"])).map(lambda text: f"'{text}'"),
    "varchar(300) compressed": _texts("é日", 300),
    "longblob compressed": _bytes(2000),
    "text compressed character set gbk": _texts("中文", 200),
}
MYSQL: Final = {
    "json": DOCUMENTS,
    "vector(5)": st.lists(st.integers(-9, 9).map(lambda n: n / 4), min_size=1, max_size=5).map(
        lambda floats: f"STRING_TO_VECTOR('{floats}')"
    ),
    "varchar(20) character set gb18030": _texts("中文🐬é", 20),
}
_MANY_DOCUMENTS: Final = {name: (COMMON | MYSQL)[name] for name in ("json", "int", "bit(13)", "longtext")}


@dataclass(frozen=True)
class Story:
    """A table, its rows by number, and what is done to them; `added` comes half-way.

    `differences` are made to each JSON column, and logged as such; without any, nothing is logged in part.
    `image` is binlog_row_image.
    """

    differences: tuple[str, ...]
    zero_dates: ZeroDates
    image: RowImage
    columns: tuple[str, ...]
    added: str
    rows: tuple[tuple[Literal, ...], ...]


@st.composite
def stories(
    draw: st.DrawFn,
    types: Mapping[str, st.SearchStrategy[Literal]],
    policies: Sequence[ZeroDates] = ("stop",),
    differences_max: int = 0,
    images: Sequence[RowImage] = ("FULL",),
) -> Story:
    columns = draw(st.lists(st.sampled_from(sorted(types)), min_size=1, max_size=6))
    added = draw(st.sampled_from(sorted(types)))
    row = st.tuples(*(st.just("NULL") | types[declared] for declared in (*columns, added)))
    return Story(
        tuple(draw(st.lists(DIFFERENCES, min_size=min(1, differences_max), max_size=differences_max))),
        draw(st.sampled_from(policies)),
        draw(st.sampled_from(images)),
        tuple(columns),
        added,
        tuple(draw(st.lists(row, min_size=2, max_size=25))),
    )


def _statements(story: Story) -> Iterator[str]:
    """Insert all, update some, delete some; alter; insert and update again."""
    width = len(story.columns)
    names = ", ".join(f"c{index}" for index in range(width))
    yield f"INSERT INTO t (id, {names}) VALUES " + ", ".join(
        f"({number}, {', '.join(row[:width])})" for number, row in enumerate(story.rows)
    )
    for number, row in enumerate(story.rows[::3]):
        changes = ", ".join(f"c{index} = {value}" for index, value in enumerate(row[:width]))
        yield f"UPDATE t SET {changes} WHERE id = {number}"
    documents = [f"c{index}" for index, declared in enumerate(story.columns) if declared == "json"]
    for difference in story.differences if documents else ():
        yield "UPDATE t SET " + ", ".join(f"{name} = {difference.format(name)}" for name in documents)
    yield "INSERT INTO t (id) VALUES (500), (501)"
    yield f"UPDATE t SET c0 = {story.rows[0][0]} WHERE id > 0"
    yield "DELETE FROM t WHERE id % 5 = 4"
    yield f"ALTER TABLE t ADD COLUMN c{width} {story.added}"
    yield f"INSERT INTO t (id, {names}, c{width}) VALUES " + ", ".join(
        f"({number + 1000}, {', '.join(row)})" for number, row in enumerate(story.rows)
    )
    yield f"UPDATE t SET c{width} = {story.rows[0][width]} WHERE id < 1005"


def _check(server: MysqlServer, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = TablePolicy(story.zero_dates, "full" if story.image in _WHOLE else "partial")
    declared = ", ".join(f"c{index} {type_}" for index, type_ in enumerate(story.columns))
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {_TABLE.schema}")
        cursor.execute(f"CREATE DATABASE {_TABLE.schema} CHARACTER SET utf8mb4")
        connection.select_db(_TABLE.schema)
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
        cursor.execute(f"SET binlog_row_image = {story.image}")
        if story.differences:
            cursor.execute("SET binlog_row_value_options = 'PARTIAL_JSON'")
        cursor.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {declared})")
        begin = head(connection)
        before = read_tables(connection, [_TABLE], policy)[_TABLE]
        altered_at = begin
        for statement in _statements(story):
            if statement.startswith("ALTER"):
                altered_at = head(connection)
            cursor.execute(statement)
        connection.commit()
        after = read_tables(connection, [_TABLE], policy)[_TABLE]
    stream = open_binlog(server, begin, _SERVER_ID, lambda table: table == _TABLE, Stop.END_OF_LOG)
    with closing(stream):
        events = []
        while not stream.at_end():
            events += [item for item in one_by_one(stream.read(5)) if isinstance(item, RowsLogged)]
    found: dict[int, Row] = {}
    for event in events:
        assert event.partial == (event.op is Op.UPDATE and bool(story.differences))
        schema = before if (event.file, event.offset) < (altered_at.file, altered_at.offset) else after
        _apply(found, _decoded(schema, event, monkeypatch))
    added = f"c{len(story.columns)}"
    assert {key: {added: None} | row for key, row in found.items()} == _selected(server, policy)


def _decoded(schema: TableSchema, event: RowsLogged, monkeypatch: pytest.MonkeyPatch) -> RowBatch:
    """Decode with both decoders, and in company, so that the fast one walks events in lockstep."""
    monkeypatch.setattr(decode, "_PLAIN_BYTES_MAX", 1 << 40)
    plain = decode_rows(schema, [event])
    monkeypatch.setattr(decode, "_PLAIN_BYTES_MAX", -1)
    fast = decode_rows(schema, [event] * 13)
    for one, many in ((plain.before, fast.before), (plain.after, fast.after)):
        assert (one is None) == (many is None)
        if one is not None and many is not None:
            many.validate(full=True)
            assert many.slice(0, len(one)).equals(one)
            assert pa.Table.from_batches([many]).equals(pa.Table.from_batches([one] * 13).combine_chunks())
    return plain


def _apply(found: dict[int, Row], batch: RowBatch) -> None:
    """Do to the rows of a table, by number, what the log says; every default here is NULL."""
    known: dict[int, Row] = {}
    if batch.before is not None:
        for row in batch.before.to_pylist():
            kept = known[row["id"]] = found.pop(row["id"])
            said = row.keys() - set(batch.before_lacks)
            assert {name: kept.get(name) for name in said} == {name: row[name] for name in said}
    if batch.op is not Op.DELETE and batch.after is not None:
        for row in batch.after.to_pylist():
            unsaid = {name: known.get(row["id"], {}).get(name) for name in batch.after_lacks}
            found[row["id"]] = row | unsaid


def _selected(server: MysqlServer, policy: TablePolicy) -> dict[int, Row]:
    with open_initial_snapshot(server, lambda table: table == _TABLE, policy) as copy:
        return {
            row["id"]: row
            for batch in copy.rows(_TABLE, 1000)
            if batch.after is not None
            for row in batch.after.to_pylist()
        }


def _or_zero(dates: st.SearchStrategy[Literal], time: str = "") -> st.SearchStrategy[Literal]:
    zeros = ("0000-00-00", "2024-00-15", "2024-11-00", "2023-02-31", "0000-12-31")
    return dates | st.sampled_from([f"'{zero}{time}'" for zero in zeros])


ZERO_DATES: Final = {
    "date": _or_zero(COMMON["date"]),
    "datetime(0)": _or_zero(COMMON["datetime(0)"], " 00:00:00"),
    "datetime(6)": _or_zero(COMMON["datetime(6)"], " 10:11:12.000345"),
    "timestamp(0) null": COMMON["timestamp(0) null"] | st.just("'0000-00-00 00:00:00'"),
    "timestamp(2) null": COMMON["timestamp(2) null"] | st.just("'0000-00-00 00:00:00'"),
}
_POLICIES: Final = ("to_null", "as_text")
_IMAGES: Final = ("FULL", "MINIMAL", "NOBLOB")
_WHOLE: Final = ("FULL", "FULL_NODUP")
_SETTINGS: Final = settings(
    # Every example is a conversation with a server of a tenth of a second.
    max_examples=settings().max_examples // 2,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def _server(running: MariadbServer | OracleMysql) -> MysqlServer:
    return MysqlServer(running.host, running.port, running.user, running.password)


@given(story=stories({**COMMON, **MARIADB}, images=_IMAGES))
@_SETTINGS
def test_on_mariadb_the_log_decodes_to_what_is_selected(
    mariadb: MariadbServer, monkeypatch: pytest.MonkeyPatch, story: Story
) -> None:
    _check(_server(mariadb), story, monkeypatch)


@given(story=stories({**COMMON, **MARIADB}, images=("FULL_NODUP",)))
@_SETTINGS
def test_on_a_newer_mariadb_what_is_not_logged_twice_is_known(
    newer_mariadb: MariadbServer, monkeypatch: pytest.MonkeyPatch, story: Story
) -> None:
    _check(_server(newer_mariadb), story, monkeypatch)


@given(story=stories({**COMMON, **MYSQL}, images=_IMAGES))
@_SETTINGS
def test_on_mysql_the_log_decodes_to_what_is_selected(
    mysql_server: OracleMysql, monkeypatch: pytest.MonkeyPatch, story: Story
) -> None:
    _check(_server(mysql_server), story, monkeypatch)


@pytest.mark.nightly
@given(story=stories({**COMMON, **MYSQL}, differences_max=6) | stories(_MANY_DOCUMENTS, differences_max=6))
@_SETTINGS
def test_on_mysql_a_log_in_part_decodes_to_what_is_selected(
    mysql_server: OracleMysql, monkeypatch: pytest.MonkeyPatch, story: Story
) -> None:
    _check(_server(mysql_server), story, monkeypatch)


@given(story=stories(ZERO_DATES, _POLICIES))
@_SETTINGS
def test_zero_dates_are_null_or_text_as_configured(
    mariadb: MariadbServer, monkeypatch: pytest.MonkeyPatch, story: Story
) -> None:
    _check(_server(mariadb), story, monkeypatch)


@given(story=stories(ZERO_DATES, _POLICIES))
@_SETTINGS
def test_zero_dates_of_mysql_are_null_or_text_as_configured(
    mysql_server: OracleMysql, monkeypatch: pytest.MonkeyPatch, story: Story
) -> None:
    _check(_server(mysql_server), story, monkeypatch)


_OLD_TEMPORAL: Final = {name: COMMON[name] for name in ("time(0)", "datetime(0)", "timestamp(0) null", "date", "int")}


@pytest.fixture
def old_temporal_format(mariadb: MariadbServer) -> Iterator[None]:
    """Have MariaDB make columns as it did before 10.0, and MySQL before 5.6."""
    with closing(connect(_server(mariadb))) as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL mysql56_temporal_format = OFF")
        yield
        cursor.execute("SET GLOBAL mysql56_temporal_format = ON")


@given(story=stories(_OLD_TEMPORAL))
@_SETTINGS
@pytest.mark.usefixtures("old_temporal_format")
def test_temporal_columns_of_the_old_format(
    mariadb: MariadbServer, monkeypatch: pytest.MonkeyPatch, story: Story
) -> None:
    _check(_server(mariadb), story, monkeypatch)
