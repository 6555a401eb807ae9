"""`penstock init`: a first file from some answers, which is whole and overwrites nothing."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.config.first_file import FirstFile, Login, render_first_file
from penstock.config.load import load, parse
from penstock.config.mysql_source import MysqlSourceSpec
from penstock.config.sinks import DuckdbSinkSpec, PostgresSinkSpec

TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20)
HOSTS = st.one_of(st.sampled_from(["yes", "null", "1", "~", "# no", "a: b", "- x", "*a", "&b", "{}", "'", '"']), TEXTS)
LOGINS = st.builds(Login, HOSTS, st.integers(1, 65535), HOSTS, st.from_regex(r"\A[A-Z_][A-Z0-9_]{0,20}\Z"), HOSTS)


def init(file: Path, *options: str, answers: str = "") -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["init", str(file), *options], input=answers)
    return ran.exit_code, " ".join(ran.output.split())


@settings(max_examples=40, deadline=None)
@given(st.from_regex(r"\A[A-Za-z][A-Za-z0-9_-]{0,20}\Z"), LOGINS, st.sampled_from(["mysql", "postgres"]), LOGINS, HOSTS)
def test_whatever_is_answered_the_file_says_just_that(
    name: str, source: Login, kind: str, target: Login, path: str
) -> None:
    login = source if kind == "postgres" else Login(source.host, source.port, source.user, source.password_env)
    answers = FirstFile(
        name, "postgres" if kind == "postgres" else "mysql", login, ["shop.*", "!shop.log_*"], path, target
    )

    spec = parse(render_first_file(answers), "first.yaml", Path("/nowhere"))

    (read,), (duckdb, postgres) = spec.sources, spec.sinks
    assert spec.pipeline == name
    assert (read.host, read.port, read.user, read.password_env) == (
        source.host,
        source.port,
        source.user,
        source.password_env,
    )
    assert isinstance(read, MysqlSourceSpec) or read.database == source.database
    assert list(read.tables) == ["shop.*", "!shop.log_*"]
    assert isinstance(duckdb, DuckdbSinkSpec)
    assert isinstance(postgres, PostgresSinkSpec)
    assert (postgres.host, postgres.database, postgres.user) == (target.host, target.database, target.user)
    assert [(link.source, link.sink) for link in spec.links] == [(read.name, "duckdb"), (read.name, "postgres")]


def test_it_asks_and_writes_a_file_that_loads(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"

    code, told = init(file, answers="mysql\ndb.example\n\ncdc\nSHOP_PASSWORD\nshop.*, shop2.a\n\n\n\n")

    spec = load(file)
    assert code == 0
    assert (spec.pipeline, spec.sources[0].host, spec.sources[0].port) == ("shop", "db.example", 3306)
    assert (spec.sources[0].tables, [sink.name for sink in spec.sinks]) == (("shop.*", "shop2.a"), ["duckdb"])
    assert f"export SHOP_PASSWORD=...; then type: penstock check {file} --connect" in told
    assert [sink.path.name for sink in spec.sinks if isinstance(sink, DuckdbSinkSpec)] == ["warehouse.duckdb"]
    assert "ambiguous" not in told


def test_a_duckdb_file_that_is_called_like_a_schema_in_it_is_told(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    init(file, answers="mysql\ndb\n\ncdc\nSHOP_PASSWORD\nshop.*\n\n\nshop.duckdb\n")

    told = CliRunner().invoke(app, ["check", str(file)]).output

    assert "shop.orders is ambiguous: give the file another name" in " ".join(told.split())


def test_with_yes_it_asks_nothing_and_takes_options(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"

    code, _ = init(
        file, "--yes", "--from", "postgres", "--host", "pg", "--database", "shop", "--table", "public.*", "--to",
        "duckdb", "--to", "postgres", "--to-host", "dwh", "--name", "shop",
    )  # fmt: skip

    spec = load(file)
    assert code == 0
    assert (spec.sources[0].kind, spec.sources[0].port, spec.pipeline) == ("postgres", 5432, "shop")
    assert [sink.kind for sink in spec.sinks] == ["duckdb", "postgres"]


def test_it_checks_the_file_with_its_servers_and_leaves_it_where_they_do_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_PASSWORD", "none")
    file = tmp_path / "shop.yaml"

    code, told = init(file, "--yes", "--port", "1", "--table", "shop.*")

    assert code != 0
    assert "WRONG" in told
    assert load(file).pipeline == "shop"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--yes asks nothing, and --table is not given"),
        (("--from", "oracle"), "oracle is no kind of source"),
        (("--from", "postgres", "--table", "a.b"), "--database is not given"),
        (("--table", "a.b", "--to", "redshift"), "not redshift what to do: write one of those"),
        (("--table", "a.b", "--name", "no name"), "mistake(s)"),
        (("--table", "orders"), "mistake(s)"),
        (("--table", "a.b", "--port", "99999"), "65535"),
    ],
)
def test_what_makes_no_file_is_refused_and_nothing_is_written(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    code, told = init(tmp_path / "shop.yaml", "--yes", *options)

    assert code == 2
    assert said in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("answers", ["mysql\nh\n\n\n\n,\n", "mysql\nh\n\n\n\nshop.*\n , \n"])
def test_a_list_with_nothing_in_it_is_asked_for_again(tmp_path: Path, answers: str) -> None:
    code, told = init(tmp_path / "shop.yaml", answers=answers)

    # There are no more answers.
    assert (code, ": name " in told) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_answers_that_cannot_be_are_asked_for_again_and_the_rest_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    answers = "oracle\nmysql\nh\n99999\n3307\nada\nNO_SUCH\nshop.*\nredshift\nduckdb\n\n\n"

    code, told = init(file, answers=answers)

    assert code == 0
    assert "oracle is no kind of source" in told
    assert "99999 is no port" in told
    assert "redshift" in told
    source = load(file).sources[0]
    assert (source.host, source.port, source.user) == ("h", 3307, "ada")


def test_what_the_file_or_its_servers_refuse_is_corrected_and_enter_keeps_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_PASSWORD", "none")
    file = tmp_path / "shop.yaml"
    first = "mysql\n127.0.0.1\n1\nada\n\norders\n\nshop\n\n"
    no_schema, no_server = "y\n\n\n\n\n\nshop.*\n\n\n\n", "y\n\n\n2\n\n\n\n\n\n\nn\n"

    code, told = init(file, answers=first + no_schema + no_server)

    source = load(file).sources[0]
    assert code != 0
    assert told.count("Correct your answers?") == 3
    assert (source.port, source.user, load(file).pipeline) == (2, "ada", "shop")


def test_a_file_that_finds_no_room_is_not_left_in_half(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, before[1]))
    try:
        code, told = init(tmp_path / "shop.yaml", "--yes", "--table", "shop.*")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert (code, "shop.yaml cannot be written" in told) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text("mine")

    code, told = init(file, "--yes", "--table", "shop.*")

    assert (code, file.read_text()) == (2, "mine")
    assert "is there already, and init overwrites nothing" in told


def test_a_place_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    code, told = init(tmp_path / "no" / "shop.yaml", "--yes", "--table", "shop.*")

    assert (code, "cannot be written: No such file or directory" in told) == (2, True)


def test_a_name_that_is_none_is_asked_for_again(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    options = ("--from", "mysql", "--host", "127.0.0.1", "--port", "1", "--user", "u", "--password-env", "P")

    _, said = init(file, *options, "--table", "shop.*", "--to", "duckdb", answers="./w.duckdb\nshop\nw.duckdb\n")

    assert "./w.duckdb is no name: write a letter" in said
    assert "pipeline: shop\n" in file.read_text()
