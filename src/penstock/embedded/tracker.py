"""The embedded schema tracker: a server of the source's own kind, MariaDB or MySQL.

Neither kind reads all statements of the other (collations, functional indexes,
sequences), has all its types (JSON, VECTOR) or prints types as the other does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.errors import UsageError
from penstock.embedded.debian import prefix_directory, require_apt
from penstock.embedded.mariadb import Flavour, find_program, start_mariadb
from penstock.embedded.mysql import PACKAGE, fetch_mysql, start_mysql
from penstock.wiring.waiting import wait_for_flavour
from penstock.wiring.whole_files import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.config.mysql_source import MysqlSourceSpec
    from penstock.config.specs import PipelineSpec
    from penstock.core.mysql.statements import describe
    from penstock.embedded.server import Server

_FOLDERS: dict[describe.Flavour, str] = {"mariadb": "tracker", "mysql": "tracker-mysql"}
_OWNER, _PIPELINE = "source", "pipeline"
"""Files in a tracker's home: whose it is. Homes of older releases have the first alone."""
_WAIT_SECONDS = 5.0
_OF_ONES_OWN = (
    "give the pipeline one, of the source's version or newer, that holds nothing else: "
    "`tracker: {host: ..., user: ..., password_env: ...}`"
)


def start_tracker(
    spec: PipelineSpec, source: MysqlSourceSpec, say: Callable[[str], None], port: int | None = None
) -> Server:
    """Start the tracker of `source` under the pipeline's home, on `port` if it must be that.

    `say` tells what takes long. Which kind the source is, is asked before the first start only. Raises
    UnavailableError when it does not answer then, and UsageError where this
    machine has no such server, and for the tracker of another pipeline.
    """
    kind = _remembered(spec, source) or _ask_kind(spec, source, say)
    home = take_home(spec, source, kind)
    if kind == "mariadb":
        return start_mariadb(home, Flavour.TRACKER, port=port)
    try:
        fetch_mysql(say)
    except UsageError as error:
        message = f"the schema tracker of a MySQL source is a MySQL too, and there is none: {error.message}"
        raise UsageError(message, _OF_ONES_OWN) from error
    return start_mysql(home, Flavour.TRACKER, port=port)


def examine_tracker(spec: PipelineSpec, source: MysqlSourceSpec) -> str:
    """Say which tracker would be started for `source`, without starting it. Raises as `start_tracker` does."""
    if (_remembered(spec, source) or wait_for_flavour(source, _say_nothing, wait_seconds=0)) == "mariadb":
        return f"MariaDB, {find_program('mariadbd')}"
    if prefix_directory(PACKAGE).exists():
        return f"MySQL, {prefix_directory(PACKAGE)}"
    try:
        require_apt(PACKAGE)
    except UsageError as error:
        raise UsageError(error.message, f"{error.hint}; or {_OF_ONES_OWN}") from error
    return "MySQL, which the first start fetches from Debian unstable (60 MB)"


def take_home(spec: PipelineSpec, source: MysqlSourceSpec, kind: describe.Flavour) -> Path:
    """Return where the data of the source's tracker is to be, and write down whose it is if that is not known.

    Raises UsageError as `start_tracker` does.
    """
    home = _home(spec, source, kind)
    for name, owner in ((_OWNER, source.name), (_PIPELINE, spec.pipeline)):
        if not _read(home / name):
            write_whole(home / name, owner)
    return home


def _ask_kind(spec: PipelineSpec, source: MysqlSourceSpec, say: Callable[[str], None]) -> describe.Flavour:
    """Ask what kind a source is; one of several does not keep the others waiting for long."""
    return wait_for_flavour(source, say) if len(spec.sources) == 1 else wait_for_flavour(source, say, _WAIT_SECONDS)


def _remembered(spec: PipelineSpec, source: MysqlSourceSpec) -> describe.Flavour | None:
    """Which kind was started before, None before the first start."""
    return next((kind for kind in _FOLDERS if (_home(spec, source, kind) / "initialised").exists()), None)


def _home(spec: PipelineSpec, source: MysqlSourceSpec, kind: describe.Flavour) -> Path:
    """Return where the tracker's data is: of what was the only source once, where it always was.

    Raises UsageError where an older release began it and does not say whose it is, and where
    it is that of another pipeline.
    """
    alone = spec.home / _FOLDERS[kind]
    owner = _read(alone / _OWNER)
    if not owner and len(spec.sources) > 1 and (alone / "initialised").exists():
        message = f"which source the schema tracker in {alone} belongs to is not known"
        raise UsageError(message, "run the pipeline once with the one source that it had, and then add the others")
    is_alone = owner == source.name or (not owner and len(spec.sources) == 1)
    home = alone if is_alone else spec.home / "trackers" / f"{source.name}{_FOLDERS[kind].removeprefix('tracker')}"
    pipeline = _read(home / _PIPELINE)
    if pipeline not in {"", spec.pipeline}:
        message = f"the schema tracker in {home} is that of the pipeline {pipeline}"
        raise UsageError(message, "give this pipeline a `home` of its own; or, if it was renamed, its old name back")
    return home


def _read(file: Path) -> str:
    """What a file says, "" if it is not there."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _say_nothing(_: str) -> None:
    """For a question that is asked once."""
