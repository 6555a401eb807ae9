"""The /v1 routes that register, or try, what is no MySQL table: any Avro; and PostgreSQL's CREATE TABLE."""

from fastapi import APIRouter
from pydantic import Field

from penstock.core.tables import TableId
from penstock.schematizer.api.answers import RegisteredAnswer, VerdictAnswer
from penstock.schematizer.api.dependencies import ERRORS, Store, Writer
from penstock.schematizer.registry.registration import check_table, register_table
from penstock.schematizer.registry.tables import shape_of_avro, shape_of_table
from penstock.schematizer.registry.topic_rule import TableShape
from penstock.schematizer.v1.routes import CreateTableRequest, Documented, shape_of_statement

router = APIRouter(prefix="/v1", tags=["schematizer"], responses={code: ERRORS[code] for code in (404, 422, 503)})
_CLICK = '{"type":"record","name":"Click","fields":[{"name":"page","type":"string","doc":"Its path"}]}'


class AvroRequest(Documented):
    """A stream that is no table's: its Avro schemas, under a name of two parts."""

    table_schema: str = Field(description="The first part of its name", examples=["web"])
    table_name: str = Field(description="The second part of its name", examples=["clicks"])
    key_schema: str | None = Field(default=None, description="Avro, as JSON text; null without a key", examples=[None])
    value_schema: str = Field(description="Avro, as JSON text", examples=[_CLICK])

    @property
    def shape(self) -> TableShape:
        """The shape that it describes."""
        name = TableId(self.table_schema, self.table_name)
        return shape_of_avro(self.registering, name, self.key_schema, self.value_schema)


class PostgresRequest(Documented):
    """A table by what PostgreSQL makes it with."""

    create_table: str = Field(
        max_length=1 << 20,
        description="CREATE TABLE, with the CREATE TYPE and CREATE DOMAIN that it needs, and COMMENT ON",
        examples=["CREATE TABLE shop.orders (id bigint PRIMARY KEY, tags text[])"],
    )

    @property
    def shape(self) -> TableShape:
        """The shape that it describes."""
        from penstock.schematizer.statements.create_table_postgres import parse_postgres_table  # noqa: PLC0415 - slow to import

        return shape_of_table(self.registering, parse_postgres_table(self.create_table))


@router.post("/schemas/avro", summary="Register Avro that is no table's")
def post_avro(writer: Writer, body: AvroRequest) -> RegisteredAnswer:
    """Register a stream by its schemas; the answer is that of `POST /v1/tables`, and so is the topic rule."""
    return RegisteredAnswer.of(register_table(writer, body.shape, body.said))


@router.post("/schemas/postgres", summary="Register a table by PostgreSQL's CREATE TABLE")
def post_postgres(writer: Writer, body: PostgresRequest) -> RegisteredAnswer:
    """Register the table that PostgreSQL's statements make; the answer is that of `POST /v1/tables`."""
    return RegisteredAnswer.of(register_table(writer, body.shape, body.said))


@router.post("/compatibility/schemas/avro", summary="Would Avro stay on its topic?")
def post_avro_check(store: Store, body: AvroRequest) -> VerdictAnswer:
    """Tell what registering it would do, and every reason against its topic. Nothing is written."""
    return _verdict(store, body.shape)


@router.post("/compatibility/schemas/mysql", summary="Would a MySQL table stay on its topic?")
def post_mysql_check(store: Store, body: CreateTableRequest) -> VerdictAnswer:
    """Tell what registering it would do, and every reason against its topic. Nothing is written."""
    return _verdict(store, shape_of_statement(body))


@router.post("/compatibility/schemas/postgres", summary="Would a PostgreSQL table stay on its topic?")
def post_postgres_check(store: Store, body: PostgresRequest) -> VerdictAnswer:
    """Tell what registering it would do, and every reason against its topic. Nothing is written."""
    return _verdict(store, body.shape)


def _verdict(store: Store, shape: TableShape) -> VerdictAnswer:
    return VerdictAnswer.of(store.read(lambda session: check_table(session, shape)))
