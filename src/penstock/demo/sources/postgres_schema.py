"""The marketplace's tables in PostgreSQL: as in schema.py, with PostgreSQL's types."""

from __future__ import annotations

from typing import Final

from penstock.demo.sources.words import SqlWords

_CREATE_TABLES: Final = {
    "businesses": """
        CREATE TABLE shop.businesses (
            id bigint PRIMARY KEY,
            public_id bytea NOT NULL,
            name varchar(120) NOT NULL,
            category shop.category NOT NULL,
            description text,
            country char(2) NOT NULL,
            postcode varchar(12),
            latitude double precision NOT NULL,
            longitude double precision NOT NULL,
            rating real,
            review_count integer NOT NULL DEFAULT 0,
            price_level smallint,
            elevation smallint NOT NULL,
            employees integer,
            founded smallint,
            is_open boolean NOT NULL,
            logo bytea,
            created_at timestamp NOT NULL,
            updated_at timestamp with time zone NOT NULL
        )
    """,
    "users": """
        CREATE TABLE shop.users (
            id bigint PRIMARY KEY,
            email varchar(254) NOT NULL,
            name varchar(100),
            birthday date,
            locale char(5) NOT NULL DEFAULT 'en_GB',
            loyalty_points integer NOT NULL,
            visits integer NOT NULL,
            karma bigint NOT NULL,
            balance numeric(12,2) NOT NULL,
            credit_limit numeric(30,10),
            password_hash bytea,
            newsletter boolean,
            mood smallint NOT NULL,
            signed_up_at timestamp NOT NULL,
            last_seen_at timestamp with time zone
        )
    """,
    "reviews": """
        CREATE TABLE shop.reviews (
            id bigint PRIMARY KEY,
            business_id bigint NOT NULL,
            user_id bigint NOT NULL,
            stars smallint NOT NULL,
            title varchar(80) NOT NULL,
            body text,
            useful integer NOT NULL DEFAULT 0,
            score double precision,
            visited_on date,
            posted_at timestamp NOT NULL
        )
    """,
    "ad_packages": """
        CREATE TABLE shop.ad_packages (
            business_id bigint NOT NULL,
            package_code varchar(24) NOT NULL,
            tier shop.tier,
            budget numeric(14,4) NOT NULL,
            spent numeric(14,4) NOT NULL DEFAULT 0,
            click_rate real,
            starts_on date NOT NULL,
            ends_on date,
            settings bytea,
            changed_at timestamp(0) NOT NULL,
            PRIMARY KEY (business_id, package_code)
        )
    """,
    "audit_log": """
        CREATE TABLE shop.audit_log (
            logged_at timestamp NOT NULL,
            actor varchar(40) NOT NULL,
            action varchar(40) NOT NULL,
            entity_id bigint,
            detail text
        );
        CREATE INDEX audit_log_logged_at ON shop.audit_log (logged_at);
        ALTER TABLE shop.audit_log REPLICA IDENTITY FULL
    """,
}
_CREATE_BOOKINGS: Final = """
    CREATE TABLE shop.bookings (
        id bigint PRIMARY KEY,
        business_id bigint NOT NULL,
        user_id bigint NOT NULL,
        guests smallint NOT NULL,
        deposit numeric(8,2),
        note varchar(200),
        starts_at timestamp(0) NOT NULL,
        made_at timestamp with time zone NOT NULL
    )
"""
_TABLES: Final = ", ".join(f"shop.{table}" for table in (*_CREATE_TABLES, "bookings"))

WORDS: Final = SqlWords(
    begin_anew=(
        "CREATE SCHEMA IF NOT EXISTS shop",
        f"DROP TABLE IF EXISTS {_TABLES}",
        "DROP TYPE IF EXISTS shop.category, shop.tier",
        "CREATE TYPE shop.category AS ENUM ('restaurant', 'café', 'bar', 'shop', 'hotel', 'museum', 'garage')",
        "CREATE TYPE shop.tier AS ENUM ('bronze', 'silver', 'gold')",
    ),
    create_tables=_CREATE_TABLES,
    add_reply="ALTER TABLE shop.reviews ADD COLUMN reply text",
    add_written_on="ALTER TABLE shop.reviews ADD COLUMN written_on varchar(20) NOT NULL DEFAULT 'a web ''page'''",
    widen="ALTER TABLE shop.reviews ALTER useful TYPE bigint, ALTER title TYPE varchar(300)",
    create_bookings=_CREATE_BOOKINGS,
    in_list="= ANY(%s)",
    change_log=(
        "UPDATE shop.audit_log SET detail = %s WHERE ctid IN"
        " (SELECT ctid FROM shop.audit_log WHERE logged_at > %s ORDER BY logged_at LIMIT 3)"
    ),
    cut_log=(
        "DELETE FROM shop.audit_log WHERE ctid IN"
        " (SELECT ctid FROM shop.audit_log WHERE logged_at < %s ORDER BY logged_at DESC LIMIT 3)"
    ),
    marks={"is_open": "%s::integer::boolean", "newsletter": "%s::integer::boolean"},
)
