"""What a config says: of a subject, of a context, or of everything.

Source: Confluent Schema Registry API reference, "Config". `normalize` holds
where a request does not ask for it as well. `compatibilityGroup` is in groups.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.schematizer.contexts import SubjectName, parse_subject
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.groups import GROUP, global_group, group_of
from penstock.schematizer.registry.levels import Level
from penstock.schematizer.registry.modes import check_changeable
from penstock.schematizer.registry.subjects import find_subject, global_level, level_of, open_subject, set_global_level
from penstock.schematizer.storage.models import Setting

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_NORMALIZE = "normalize"


@dataclass(frozen=True, slots=True)
class Config:
    """A config; None for what it does not say."""

    level: Level | None = None
    normalize: bool | None = None
    group: str | None = None

    def told(self, level_name: str) -> dict[str, str | bool]:
        """Return what a client is answered, the level under the name that the method has for it."""
        told = {level_name: self.level, "normalize": self.normalize, "compatibilityGroup": self.group}
        return {name: value for name, value in told.items() if value is not None}


def global_config(session: Session) -> Config:
    """Return what holds where a subject and its context say nothing."""
    setting = session.get(Setting, _NORMALIZE)
    normalize = None if setting is None else setting.value == "true"
    return Config(global_level(session), normalize, global_group(session))


def set_global_config(session: Session, config: Config) -> None:
    """Change what holds where a subject and its context say nothing; what `config` does not say stays."""
    if config.level is not None:
        set_global_level(session, config.level)
    if config.normalize is not None:
        session.merge(Setting(name=_NORMALIZE, value="true" if config.normalize else "false"))
    if config.group is not None:
        session.merge(Setting(name=GROUP, value=config.group))


def forget_global_config(session: Session) -> Config:
    """Return to what a new registry has; return what held until now."""
    before = global_config(session)
    set_global_level(session, None)
    for name in (_NORMALIZE, GROUP):
        setting = session.get(Setting, name)
        if setting is not None:
            session.delete(setting)
    return before


def own_config(session: Session, name: str) -> Config:
    """Return what subject `name`, or a context, says itself."""
    subject = find_subject(session, name)
    if subject is None:
        return Config()
    level = Level(subject.compatibility) if subject.compatibility else None
    return Config(level, subject.normalize, subject.compatibility_group)


def config_of(session: Session, name: str) -> Config:
    """Return what holds for subject `name`."""
    return Config(level_of(session, name), _normalize_of(session, name), group_of(session, name))


def normalizes(session: Session, name: str) -> bool:
    """Tell whether the schemas of subject `name` are kept in one form, whatever a request says."""
    return _normalize_of(session, name) or False


def set_config(session: Session, name: str, config: Config) -> None:
    """Change what subject `name` says itself; what `config` does not say stays. Raises RefusedError."""
    check_changeable(session, name)
    subject = open_subject(session, name)
    if config.level is not None:
        subject.compatibility = config.level
    if config.normalize is not None:
        subject.normalize = config.normalize
    if config.group is not None:
        subject.compatibility_group = config.group


def forget_config(session: Session, name: str) -> Config:
    """Take away what subject `name` says itself, and return it. Raises RefusedError where it says nothing."""
    check_changeable(session, name)
    before = own_config(session, name)
    if before == Config():
        message = f"Subject '{name}' not found. It has no config of its own"
        raise RefusedError(Code.UNKNOWN_SUBJECT, message, "the global one holds: see GET /config")
    subject = open_subject(session, name)
    subject.compatibility, subject.normalize, subject.compatibility_group = "", None, None
    return before


def _normalize_of(session: Session, name: str) -> bool | None:
    for each in (name, str(SubjectName(parse_subject(name).context, ""))):
        own = own_config(session, each).normalize
        if own is not None:
            return own
    return global_config(session).normalize
