"""COPY and UNLOAD of the stand-in: what files may hold, and that no failure of a load passes as a success.

Pages of the Amazon Redshift Database Developer Guide are named beside each rule.
"""

from __future__ import annotations

import gzip
import io
import json
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.servers.redshift_case import CREDENTIALS, Files, log_in, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.dev.redshift import RedshiftServer
    from penstock.dev.s3 import S3Server


@pytest.fixture
def connection(redshift: RedshiftServer) -> Iterator[psycopg.Connection]:
    with log_in(redshift) as connection:
        run(connection, "DROP TABLE IF EXISTS loaded", "CREATE TABLE loaded (id INT NOT NULL, name VARCHAR(5), n INT)")
        yield connection


@pytest.fixture
def files(s3: S3Server, fresh_name: str) -> Files:
    return Files(s3, f"copy/{fresh_name}")


def test_copy_takes_the_files_of_a_manifest(connection: psycopg.Connection, files: Files) -> None:
    # "Using a manifest to specify data files", "PG_LAST_COPY_COUNT", "STL_LOAD_COMMITS"
    parts = [files.put_packed(f"part/{number}.csv.gz", f'{number},"a,""b",{number}\n') for number in range(20)]
    manifest = files.manifest("all.manifest", parts[:15])

    run(connection, f"COPY loaded FROM '{manifest}' {CREDENTIALS} MANIFEST CSV GZIP STATUPDATE OFF COMPUPDATE OFF")

    assert run(connection, "SELECT count(*), min(name), sum(n) FROM loaded") == [(15, 'a,"b', 105)]
    assert run(connection, "SELECT pg_last_copy_count(), pg_last_copy_id() > 0") == [(15, True)]
    committed = "SELECT rtrim(filename) FROM stl_load_commits WHERE query = pg_last_copy_id() ORDER BY filename"
    assert [url for (url,) in run(connection, committed)] == sorted(parts[:15])


def test_a_prefix_is_a_beginning_of_names(connection: psycopg.Connection, files: Files) -> None:
    # "COPY from Amazon S3"
    for name in ("day-1.csv", "day-10.csv", "day/2.csv", "night.csv"):
        files.put(name, "1,a,1\n")

    run(connection, f"COPY loaded FROM '{files.url}/day' {CREDENTIALS} CSV")

    assert run(connection, "SELECT count(*) FROM loaded") == [(3,)]


@pytest.mark.parametrize(
    ("options", "content", "expected"),
    [
        # "Data conversion parameters"
        ("CSV", "1,,\n", (1, "", None)),
        ("CSV EMPTYASNULL", "1,,\n", (1, None, None)),
        ("CSV EMPTYASNULL", "1,  ,\n", (1, "  ", None)),
        ("CSV BLANKSASNULL", "1,  ,\n", (1, None, None)),
        ("CSV", "1,\\N,\\N\n", (1, None, None)),
        ("CSV NULL AS 'nil'", "1,nil,nil\n", (1, None, None)),
        ("CSV IGNOREHEADER 1", "id,name,n\n1,a,2\n", (1, "a", 2)),
        ("CSV IGNOREHEADER AS 2", "x\ny\n1,a,2\n", (1, "a", 2)),
        ("CSV TRUNCATECOLUMNS", "1,abcdefgh,2\n", (1, "abcde", 2)),
        ("CSV TRUNCATECOLUMNS", "1,ééé,2\n", (1, "éé", 2)),
        ("CSV ACCEPTINVCHARS", b"1,a\xff\xfe,2\n", (1, "a??", 2)),
        ("CSV ACCEPTINVCHARS AS '^'", b"1,a\xff,2\n", (1, "a^", 2)),
        # "Data format parameters"
        ("CSV QUOTE AS '%'", "1,%a,b%,2\n", (1, "a,b", 2)),
        ("CSV DELIMITER '|'", '1|"a|b"|2\n', (1, "a|b", 2)),
        ("", "1|a,b|2\n", (1, "a,b", 2)),
        ("DELIMITER '\\t'", "1\ta\t2\n", (1, "a", 2)),
        ("DELIMITER ',' ESCAPE", "1,a\\,b,2\n", (1, "a,b", 2)),
        ("DELIMITER ',' REMOVEQUOTES", '1,"a",2\n', (1, "a", 2)),
        ("CSV", '1,"a\nb",2\n', (1, "a\nb", 2)),
        ("CSV", "1,a\\b,2\n", (1, "a\\b", 2)),
        ("FORMAT AS CSV", "1,ab,2", (1, "ab", 2)),
    ],
)
def test_options_say_what_a_field_means(
    connection: psycopg.Connection, files: Files, options: str, content: str | bytes, expected: tuple[Any, ...]
) -> None:
    url = files.put("one", content)

    run(connection, f"COPY loaded FROM '{url}' {CREDENTIALS} {options}")

    assert run(connection, "SELECT * FROM loaded") == [expected]


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        # "DATEFORMAT and TIMEFORMAT strings"
        ("", "2024-02-29,2024-02-29 01:02:03.5", "2024-02-29|2024-02-29 01:02:03.5"),
        ("DATEFORMAT 'DD/MM/YYYY'", "29/02/2024,2024-02-29", "2024-02-29|2024-02-29 00:00:00"),
        ("TIMEFORMAT 'auto'", "2024-02-29,2024-02-29T01:02:03", "2024-02-29|2024-02-29 01:02:03"),
        ("TIMEFORMAT 'MM.DD.YYYY HH:MI:SS'", "2024-02-29,02.29.2024 01:02:03", "2024-02-29|2024-02-29 01:02:03"),
        ("TIMEFORMAT 'epochsecs'", "2024-02-29,1709168523", "2024-02-29|2024-02-29 01:02:03"),
        ("TIMEFORMAT 'epochmillisecs'", "2024-02-29,1709168523500", "2024-02-29|2024-02-29 01:02:03.5"),
    ],
)
def test_dates_and_times_are_read_by_their_formats(
    connection: psycopg.Connection, files: Files, options: str, text: str, expected: str
) -> None:
    run(connection, "CREATE TEMP TABLE timed (d DATE, t TIMESTAMP)")

    run(connection, f"COPY timed FROM '{files.put('one', text)}' {CREDENTIALS} CSV {options}")

    assert run(connection, "SELECT d::text || '|' || t::text FROM timed") == [(expected,)]


def test_semistructured_and_binary_values_are_loaded_from_text(connection: psycopg.Connection, files: Files) -> None:
    # "Loading semistructured data into Amazon Redshift", "VARBYTE type", "Data conversion parameters" for ROUNDEC
    run(connection, "CREATE TEMP TABLE odd (s SUPER, b VARBYTE(3), d NUMERIC(6,2))")
    url = files.put("one", '"{""a"":[1,null]}",00FF10,1.239\n')

    run(connection, f"COPY odd FROM '{url}' {CREDENTIALS} CSV", f"COPY odd FROM '{url}' {CREDENTIALS} CSV ROUNDEC")

    assert sorted(run(connection, "SELECT s::text IS NULL, json_serialize(s), to_hex(b), d::text FROM odd")) == [
        (True, '{"a":[1,null]}', "00ff10", "1.23"),
        (True, '{"a":[1,null]}', "00ff10", "1.24"),
    ]


def test_columns_of_a_list_are_filled_and_the_others_get_their_defaults(
    connection: psycopg.Connection, files: Files
) -> None:
    # "COPY", column list; "IDENTITY" in "CREATE TABLE": its values come by themselves, or with EXPLICIT_IDS from files
    run(
        connection,
        "CREATE TEMP TABLE part (k BIGINT GENERATED BY DEFAULT AS IDENTITY(5,2), a INT DEFAULT 7, b INT)",
        f"COPY part (b) FROM '{files.put('one', '1')}' {CREDENTIALS} CSV",
        f"COPY part FROM '{files.put('two', '2,3')}' {CREDENTIALS} CSV",
        f"COPY part FROM '{files.put('three', '100,4,5')}' {CREDENTIALS} CSV EXPLICIT_IDS",
    )

    assert run(connection, "SELECT * FROM part ORDER BY k") == [(5, 7, 1), (7, 2, 3), (100, 4, 5)]


def test_parquet_is_loaded_by_position(connection: psycopg.Connection, files: Files) -> None:
    # "COPY from columnar data formats"
    table = pa.table(
        {
            "x": pa.array([1, 2], pa.int32()),
            "y": pa.array(["tab\t\\", None]),
            "z": pa.array([3, None], pa.int32()),
        }
    )

    run(connection, f"COPY loaded FROM '{_parquet(files, table)}' {CREDENTIALS} FORMAT AS PARQUET")

    assert run(connection, "SELECT * FROM loaded ORDER BY id") == [(1, "tab\t\\", 3), (2, None, None)]


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"x": pa.array([1], pa.int64()), "y": ["a"], "z": pa.array([1], pa.int32())}),
        pa.table({"x": pa.array([1], pa.int32()), "y": ["a"]}),
        pa.table({"x": pa.array([1], pa.int32()), "y": ["too long"], "z": pa.array([1], pa.int32())}),
    ],
)
def test_parquet_that_does_not_fit_is_refused(connection: psycopg.Connection, files: Files, table: pa.Table) -> None:
    with pytest.raises(psycopg.Error):
        run(connection, f"COPY loaded FROM '{_parquet(files, table)}' {CREDENTIALS} FORMAT AS PARQUET")

    assert run(connection, "SELECT count(*) FROM loaded") == [(0,)]


_BROKEN = {
    # "Load error reference": a bad row, what stl_load_errors says of it
    "1,a,1\nx,a,1\n": (2, "id", 1207),
    "1,a,99999999999\n": (1, "n", 1216),
    "1,a\n": (1, "", 1214),
    "1,a,1,9\n": (1, "", 1202),
    "1|a|1\n": (1, "", 1214),
    "1,toolong,1\n": (1, "name", 1204),
    "1,ééé,1\n": (1, "name", 1204),
    b"1,\xff,1\n": (1, "name", 1220),
    ",a,1\n": (1, "id", 1213),
}


@pytest.mark.parametrize("content", _BROKEN)
def test_a_bad_row_ends_the_load_and_is_told(
    connection: psycopg.Connection, files: Files, content: str | bytes
) -> None:
    url = files.put("bad", content)

    with pytest.raises(psycopg.InternalError, match="Load into table 'loaded' failed"):
        run(connection, f"COPY loaded FROM '{url}' {CREDENTIALS} CSV")

    assert run(connection, "SELECT count(*) FROM loaded") == [(0,)]
    told = "SELECT line_number, rtrim(colname), err_code FROM stl_load_errors WHERE rtrim(filename) = "
    assert run(connection, f"{told}'{url}'") == [_BROKEN[content]]
    detail = f"SELECT line_number, column_name, error_code FROM sys_load_error_detail WHERE file_name = '{url}'"
    assert run(connection, detail) == [_BROKEN[content]]


def test_bad_rows_below_maxerror_are_skipped_and_told(connection: psycopg.Connection, files: Files) -> None:
    # "Data load operations", MAXERROR
    url = files.put("some", "1,a,1\nx,a,1\n2,toolong,1\n3,c\n4,d,4\n")

    run(connection, f"COPY loaded FROM '{url}' {CREDENTIALS} CSV MAXERROR 4")

    assert run(connection, "SELECT id FROM loaded ORDER BY id") == [(1,), (4,)]
    told = run(connection, f"SELECT line_number, err_code FROM stl_load_errors WHERE rtrim(filename) = '{url}'")
    assert sorted(code for _, code in told) == [1204, 1207, 1214]
    with pytest.raises(psycopg.InternalError, match="Load into table"):
        run(connection, f"COPY loaded FROM '{url}' {CREDENTIALS} CSV MAXERROR 3")


def test_missing_files_and_wrong_keys_are_refused(connection: psycopg.Connection, files: Files) -> None:
    # "Using a manifest to specify data files", "Authorization parameters", "File compression parameters"
    good = files.put("good", "1,a,1\n")
    refused = {
        f"'{files.manifest('m', [good, good + 'x'])}' {CREDENTIALS} MANIFEST CSV": "does not exist",
        f"'{files.put('no.manifest', 'x')}' {CREDENTIALS} MANIFEST CSV": "Problem reading manifest",
        f"'{files.url}/none' {CREDENTIALS} CSV": "The specified S3 prefix",
        f"'{good}' {CREDENTIALS} CSV GZIP": "not in GZIP format",
        f"'{good}' {CREDENTIALS} CSV ZSTD": "not in ZSTD format",
        f"'{files.put('cut', gzip.compress(b'1,a,1')[:-9])}' {CREDENTIALS} CSV GZIP": "is cut off",
        f"'{good}' ACCESS_KEY_ID 'nobody' SECRET_ACCESS_KEY 'x' CSV": "InvalidAccessKeyId",
        f"'{good}' ACCESS_KEY_ID 'penstock' SECRET_ACCESS_KEY 'x' CSV": "SignatureDoesNotMatch",
        f"'{good}' IAM_ROLE 'arn:aws:iam::000000000000:role/other' CSV": "not authorized to assume IAM Role",
        f"'s3://nowhere/x' {CREDENTIALS} CSV": "bucket does not exist",
        f"'{good}' CSV": "need IAM_ROLE",
        f"'{good}' {CREDENTIALS} CSV ESCAPE": "ESCAPE option is not supported with CSV",
        f"'{good}' {CREDENTIALS} FORMAT AS PARQUET GZIP": "not supported for PARQUET",
        f"'{good}' {CREDENTIALS} FIXEDWIDTH '1'": "does not know",
    }

    for what, expected in refused.items():
        with pytest.raises(psycopg.Error, match=expected):
            run(connection, f"COPY loaded FROM {what}")

    assert run(connection, "SELECT count(*) FROM loaded") == [(0,)]


def test_what_may_be_missing_is_left_out(connection: psycopg.Connection, files: Files) -> None:
    # "Using a manifest to specify data files": mandatory is false unless said otherwise
    good = files.put("good", "1,a,1\n")

    manifest = files.manifest("m", [good, f"{good}x"], {"mandatory": False})
    run(connection, f"COPY loaded FROM '{manifest}' {CREDENTIALS} MANIFEST CSV")

    assert run(connection, "SELECT count(*) FROM loaded") == [(1,)]


def test_a_content_length_that_is_wrong_is_refused(connection: psycopg.Connection, files: Files) -> None:
    good = files.put("good", "1,a,1\n")
    manifest = files.manifest("m", [good], {"meta": {"content_length": 7}})

    with pytest.raises(psycopg.Error, match="content length"):
        run(connection, f"COPY loaded FROM '{manifest}' {CREDENTIALS} MANIFEST CSV")


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_failing_copy_never_looks_like_a_success(redshift: RedshiftServer, files: Files) -> None:
    """A thousand loads fail in each way, in both protocols, alone, in a transaction and in the middle of a pipeline."""
    good = files.put("good", "1,a,1\n")
    broken = [
        f"'{files.put('digit', 'x,a,1')}' {CREDENTIALS} CSV",
        f"'{files.put('long', '1,toolong,1')}' {CREDENTIALS} CSV",
        f"'{files.put('packed', '1,a,1')}' {CREDENTIALS} CSV GZIP",
        f"'{files.manifest('m', [good, good + 'x'])}' {CREDENTIALS} MANIFEST CSV",
        f"'{good}' ACCESS_KEY_ID 'nobody' SECRET_ACCESS_KEY 'x' CSV",
    ]
    with log_in(redshift) as connection:
        run(connection, "DROP TABLE IF EXISTS never", "CREATE TABLE never (id INT, name VARCHAR(5), n INT)")
        succeeded = 0
        for number in range(1000):
            succeeded += _tries(
                connection, f"COPY never FROM {broken[number % len(broken)]}", number // len(broken) % 4
            )

        assert succeeded == 0
        assert run(connection, "SELECT count(*) FROM never") == [(0,)]


def test_unload_writes_what_copy_reads(connection: psycopg.Connection, files: Files) -> None:
    # "UNLOAD"
    run(connection, "INSERT INTO loaded VALUES (1, 'a,\"b', NULL), (2, 'c', 3)")
    query = "SELECT * FROM loaded ORDER BY id"

    unload = f"UNLOAD ('{query}') TO '{files.url}/out_' {CREDENTIALS} CSV GZIP MANIFEST NULL AS 'nil'"
    run(connection, unload)

    assert gzip.decompress(files.get("out_0000_part_00.gz")) == b'1,"a,""b",nil\n2,c,3\n'
    assert len(json.loads(files.get("out_manifest"))["entries"]) == 1
    with pytest.raises(psycopg.Error, match="is not empty"):
        run(connection, unload)
    run(connection, f"COPY loaded FROM '{files.url}/out_manifest' {CREDENTIALS} MANIFEST CSV GZIP NULL AS 'nil'")
    assert run(connection, query) == [(1, 'a,"b', None)] * 2 + [(2, "c", 3)] * 2


def _tries(connection: psycopg.Connection, copy: str, way: int) -> int:
    """Run a COPY that fails in one of four ways; 1 if it seemed to succeed."""
    try:
        if way == 0:
            # libpq's simple protocol.
            result = connection.pgconn.exec_(copy.encode())
            return int(result.status in {psycopg.pq.ExecStatus.COMMAND_OK, psycopg.pq.ExecStatus.TUPLES_OK})
        if way == 1:
            connection.execute(copy.encode())
        elif way == 2:
            with connection.transaction():
                run(connection, "INSERT INTO never VALUES (1, 'a', 1)", copy)
        else:
            with connection.pipeline():
                connection.execute("INSERT INTO never VALUES (1, 'a', 1)")
                connection.execute(copy.encode())
                connection.execute("INSERT INTO never VALUES (2, 'b', 2)")
    except psycopg.Error:
        return 0
    return 1


def _parquet(files: Files, table: pa.Table) -> str:
    content = io.BytesIO()
    pq.write_table(table, content)
    return files.put("one.parquet", content.getvalue())
