"""The rules that single values of a config file obey, and what is said to those that do not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, Field

from penstock.core.patterns import TablePatterns

if TYPE_CHECKING:
    from collections.abc import Callable

_OBJECT_SCHEMES = ("s3", "gs", "az", "abfs", "abfss", "file")
_STATE_SCHEMES = ("sqlite", "mysql", "mariadb", "postgresql")
_PASSWORDS = ("password", "passwd", "pwd")
"""How parameters of a database URL end that are passwords."""
_MASTER = re.compile(r"local(\[(\*|[1-9]\d*)(,\s*\d+)?\])?|local-cluster\[.+\]|spark://.+|yarn|k8s://.+")
_SERVERS = re.compile(r"[^\s,:/]+:\d{1,5}(,\s*[^\s,:/]+:\d{1,5})*")
_NODE_PATH = re.compile(r"(/(?!\.{1,2}(/|$))[^\s/\x00-\x1f\x7f-\x9f]+)*")


def _check_table_pattern(pattern: str) -> str:
    """A lone exclusion is well-formed; that something is included is checked over the whole list."""
    TablePatterns((pattern.removeprefix("!") if len(pattern) > 1 else pattern,))
    return pattern


def _check_master(master: str) -> str:
    if not _MASTER.fullmatch(master):
        text = "should be local[*], local[N], spark://host:port, yarn or k8s://host:port"
        raise ValueError(text)
    return master


def _check_servers(servers: str) -> str:
    if not _SERVERS.fullmatch(servers):
        text = "should be host:port, or several of them with commas between"
        raise ValueError(text)
    return servers.replace(" ", "")


def _check_zookeeper(place: str) -> str:
    servers, slash, path = place.partition("/")
    if not _SERVERS.fullmatch(servers):
        text = "should be host:port, or several of them with commas between, and a path after them if you like"
        raise ValueError(text)
    if not _NODE_PATH.fullmatch(slash + path):
        text = "should end with a path like /some/path, without a / after it, or with none"
        raise ValueError(text)
    return servers.replace(" ", "") + slash + path


def _check_web_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        text = "should be a URL that begins with http:// or https://"
        raise ValueError(text)
    if parts.password:
        text = "holds a password: leave user and password out, and give them with user and password_env instead"
        raise ValueError(text)
    return url.rstrip("/")


def _check_objects_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in _OBJECT_SCHEMES or not (parts.netloc or parts.path.strip("/")):
        text = "should be s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or file:///directory"
        raise ValueError(text)
    # An account that holds a container stands behind an @, too: abfss://container@account.dfs.core.windows.net/prefix
    if ":" in parts.netloc or ("@" in parts.netloc and not parts.scheme.startswith("abfs")):
        text = "holds a login: leave it out, and give the keys in the environment"
        raise ValueError(text)
    return url.rstrip("/")


def _check_state_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme.partition("+")[0] not in _STATE_SCHEMES:
        text = "should be a database URL: sqlite:///file, mysql://..., or postgresql://..."
        raise ValueError(text)
    keys = (key.casefold() for key, _ in parse_qsl(parts.query, keep_blank_values=True))
    if parts.password or any(key.endswith(_PASSWORDS) for key in keys):
        text = "holds a password: put the URL into an environment variable and name it with url_env instead"
        raise ValueError(text)
    return url


def spark_value(value: object) -> object:
    """Write YAML's numbers and booleans as Spark's settings spell them."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case _:
            return value


def refuse_later_kinds(section: object, kinds: tuple[str, ...], what: str) -> object:
    """Refuse a section of a kind that the design knows and this release does not, whatever else is in it."""
    if isinstance(section, dict) and section.get("kind") in kinds:
        text = f"a {what} {section['kind']} is not in this release; leave it out"
        raise ValueError(text)
    return section


def refuse_unless_empty(what: str) -> Callable[[object], object]:
    """Build the validator of a key that the design knows and this release does not."""

    def refuse(value: object) -> object:
        if value:
            text = f"{what} is not in this release; leave it out"
            raise ValueError(text)
        return () if isinstance(value, list) else value

    return refuse


def _check_table_list(patterns: tuple[str, ...]) -> tuple[str, ...]:
    TablePatterns(patterns)
    return patterns


RedshiftEncoding: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9]+$")]
EnvironmentName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
SourceName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,47}$")]
KafkaServers: TypeAlias = Annotated[str, AfterValidator(_check_servers)]
ObjectsUrl: TypeAlias = Annotated[str, AfterValidator(_check_objects_url)]
SparkMaster: TypeAlias = Annotated[str, AfterValidator(_check_master)]
StateUrl: TypeAlias = Annotated[str, AfterValidator(_check_state_url)]
TargetSchema: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]
TablePattern: TypeAlias = Annotated[str, AfterValidator(_check_table_pattern)]
TableList: TypeAlias = Annotated[tuple[TablePattern, ...], Field(min_length=1), AfterValidator(_check_table_list)]
WebUrl: TypeAlias = Annotated[str, AfterValidator(_check_web_url)]
Zookeeper: TypeAlias = Annotated[str, AfterValidator(_check_zookeeper)]
