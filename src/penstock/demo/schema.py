"""The marketplace's tables, as SQL: what there is at the start, and what changes while the demo runs."""

from __future__ import annotations

from typing import Final

SCHEMA: Final = "shop"

CREATE_TABLES: Final = {
    "businesses": """
        CREATE TABLE shop.businesses (
            id INT UNSIGNED NOT NULL PRIMARY KEY,
            public_id BINARY(16) NOT NULL,
            name VARCHAR(120) NOT NULL,
            category ENUM('restaurant', 'café', 'bar', 'shop', 'hotel', 'museum', 'garage') NOT NULL,
            description TEXT NULL,
            country CHAR(2) NOT NULL,
            postcode VARCHAR(12) NULL,
            latitude DOUBLE NOT NULL,
            longitude DOUBLE NOT NULL,
            rating FLOAT NULL,
            review_count INT NOT NULL DEFAULT 0,
            price_level TINYINT UNSIGNED NULL,
            elevation SMALLINT NOT NULL,
            employees SMALLINT UNSIGNED NULL,
            founded YEAR NULL,
            is_open BOOLEAN NOT NULL,
            logo BLOB NULL,
            created_at DATETIME(6) NOT NULL,
            updated_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)
        ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='Places that people review'
    """,
    "users": """
        CREATE TABLE shop.users (
            id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
            email VARCHAR(254) NOT NULL,
            name VARCHAR(100) NULL,
            birthday DATE NULL,
            locale CHAR(5) NOT NULL DEFAULT 'en_GB',
            loyalty_points MEDIUMINT NOT NULL,
            visits MEDIUMINT UNSIGNED NOT NULL,
            karma BIGINT NOT NULL,
            balance DECIMAL(12,2) NOT NULL,
            credit_limit DECIMAL(30,10) NULL,
            password_hash VARBINARY(32) NULL,
            newsletter BOOLEAN NULL,
            mood TINYINT NOT NULL,
            signed_up_at DATETIME(6) NOT NULL,
            last_seen_at TIMESTAMP(6) NULL
        ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='People who write reviews'
    """,
    "reviews": """
        CREATE TABLE shop.reviews (
            id BIGINT NOT NULL PRIMARY KEY,
            business_id INT UNSIGNED NOT NULL,
            user_id BIGINT UNSIGNED NOT NULL,
            stars TINYINT NOT NULL,
            title VARCHAR(80) NOT NULL,
            body TEXT NULL,
            useful INT NOT NULL DEFAULT 0,
            score DOUBLE NULL,
            visited_on DATE NULL,
            posted_at DATETIME(6) NOT NULL
        ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='What people think of places'
    """,
    "ad_packages": """
        CREATE TABLE shop.ad_packages (
            business_id INT UNSIGNED NOT NULL,
            package_code VARCHAR(24) NOT NULL,
            tier ENUM('bronze', 'silver', 'gold') NULL,
            budget DECIMAL(14,4) NOT NULL,
            spent DECIMAL(14,4) NOT NULL DEFAULT 0,
            click_rate FLOAT NULL,
            starts_on DATE NOT NULL,
            ends_on DATE NULL,
            settings VARBINARY(64) NULL,
            changed_at DATETIME NOT NULL,
            PRIMARY KEY (business_id, package_code)
        ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='Advertising that places have bought'
    """,
    "audit_log": """
        CREATE TABLE shop.audit_log (
            logged_at DATETIME(6) NOT NULL,
            actor VARCHAR(40) NOT NULL,
            action VARCHAR(40) NOT NULL,
            entity_id BIGINT NULL,
            detail TEXT NULL,
            KEY audit_log_logged_at (logged_at)
        ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='Who did what; it has no primary key'
    """,
}

COLUMNS: Final = {
    "businesses": (
        "id", "public_id", "name", "category", "description", "country", "postcode", "latitude", "longitude", "rating",
        "review_count", "price_level", "elevation", "employees", "founded", "is_open", "logo", "created_at",
        "updated_at",
    ),
    "users": (
        "id", "email", "name", "birthday", "locale", "loyalty_points", "visits", "karma", "balance", "credit_limit",
        "password_hash", "newsletter", "mood", "signed_up_at", "last_seen_at",
    ),
    "reviews": (
        "id", "business_id", "user_id", "stars", "title", "body", "useful", "score", "visited_on", "posted_at",
    ),
    "ad_packages": (
        "business_id", "package_code", "tier", "budget", "spent", "click_rate", "starts_on", "ends_on", "settings",
        "changed_at",
    ),
    "audit_log": ("logged_at", "actor", "action", "entity_id", "detail"),
    "bookings": ("id", "business_id", "user_id", "guests", "deposit", "note", "starts_at", "made_at"),
}  # fmt: skip

ADD_REPLY: Final = "ALTER TABLE shop.reviews ADD COLUMN reply TEXT NULL AFTER body"
ADD_WRITTEN_ON: Final = "ALTER TABLE shop.reviews ADD COLUMN written_on VARCHAR(20) NOT NULL DEFAULT 'a web \\'page\\''"
WIDEN: Final = "ALTER TABLE shop.reviews MODIFY useful BIGINT NOT NULL DEFAULT 0, MODIFY title VARCHAR(300) NOT NULL"
CREATE_BOOKINGS: Final = """
    CREATE TABLE shop.bookings (
        id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
        business_id INT UNSIGNED NOT NULL,
        user_id BIGINT UNSIGNED NOT NULL,
        guests TINYINT UNSIGNED NOT NULL,
        deposit DECIMAL(8,2) NULL,
        note VARCHAR(200) NULL,
        starts_at DATETIME NOT NULL,
        made_at TIMESTAMP(6) NOT NULL
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='A table that appears while the pipeline runs'
"""
