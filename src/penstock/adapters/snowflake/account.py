"""Where a database of Snowflake is, and our login to it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SnowflakeAccount:
    """A database of an account and our login to it: by `password`, or by the key in `private_key_file` (PEM)."""

    account: str
    host: str | None
    port: int
    protocol: str
    user: str
    database: str
    virtual_warehouse: str
    role: str | None = None
    password: str | None = field(default=None, repr=False)
    private_key_file: str | None = None

    def __str__(self) -> str:
        """Where it is, without the password."""
        return f"snowflake://{self.user}@{self.host or self.account}/{self.database}"
