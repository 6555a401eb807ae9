"""Figures: changes from topics into Redshift's stand-in, the S3 spolt and the Redshift spolt at work at once."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from penstock.adapters.redshift.connection import connect, execute
from penstock.bench.figure import Figure
from penstock.bench.redshift.load import make_place
from penstock.bench.warehouse.compare import COLUMNS, require_equal
from penstock.bench.warehouse.load import measure_ours, prepare
from penstock.bench.warehouse.pipeline import OBJECTS, TARGET_PASSWORD_ENV
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.bench.lab import Lab
    from penstock.bench.programs.load_redshift import RedshiftPlace

_TABLE: Final = TableId("bench_redshift", "orders")


def measure_topics(lab: Lab) -> Sequence[Figure]:
    """Topics to S3 and from there to Redshift."""
    place = make_place(lab, lab.folder("redshift-topics"))
    objects = f'url: "{place.url}", endpoint: "{place.endpoint}", format: csv, compression: gzip'
    keys = {
        "AWS_ACCESS_KEY_ID": place.access_key_id,
        "AWS_SECRET_ACCESS_KEY": place.secret_access_key,
        TARGET_PASSWORD_ENV: place.password,
    }
    pipeline = prepare(lab, _TABLE, {"redshift": _sink(place)}, objects, keys)
    ours = measure_ours(lab, pipeline, _TABLE, (OBJECTS, pipeline.link))
    with closing(connect(place.cluster())) as connection:
        query = f"SELECT {COLUMNS} FROM {_TABLE} WHERE"  # noqa: S608 - names of ours
        require_equal(lab.source(), _TABLE, "Penstock", query, lambda sql: execute(connection, sql).fetchall())
    note = f"{ours.work.rows:,} changes over half as many keys; both spolts ran before; results compared row by row"
    name = "topics to S3 and Redshift"
    return [
        Figure(f"{name}, speed", "rows per second", "more", ours.speed, note=note),
        Figure(f"{name}, CPU", "CPU seconds per million rows", "less", ours.work.cpu_per_million, note=note),
    ]


def _sink(place: RedshiftPlace) -> str:
    login = f"user: {place.user}, password_env: {TARGET_PASSWORD_ENV}, sslmode: disable"
    where = f"host: {place.host}, port: {place.port}, database: {place.database}"
    return f'kind: redshift, {where}, {login}, iam_role: "{place.iam_role}"'
