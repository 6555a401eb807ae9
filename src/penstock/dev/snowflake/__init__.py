"""A Snowflake to test against: fakesnow with streams and tasks. README.md tells what it can do."""

from penstock.dev.snowflake.service import SnowflakeServer, start_snowflake

__all__ = ["SnowflakeServer", "start_snowflake"]
