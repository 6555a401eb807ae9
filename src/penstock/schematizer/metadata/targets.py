"""Where streams end up: data targets, the consumer groups that fill them, and what these read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from penstock.schematizer.api.paging import read_page
from penstock.schematizer.api.usage_answers import (
    DataSourceAnswer,
    DataSourceList,
    GroupAnswer,
    GroupList,
    TargetAnswer,
    TargetList,
)
from penstock.schematizer.metadata.scopes import Scoped, name_scoped
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.storage.database import now_ms
from penstock.schematizer.storage.history import HistoryPlace, add_change, set_field
from penstock.schematizer.storage.models import Thing
from penstock.schematizer.storage.usage_models import ConsumerGroup, DataSource, DataTarget
from penstock.schematizer.storage.words import clean

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from penstock.schematizer.api.paging import Window
    from penstock.schematizer.api.usage_queries import GroupQuery, TargetQuery
    from penstock.schematizer.storage.database import UnitOfWork


def put_target(work: UnitOfWork, name: str, type_: str, destination: str) -> TargetAnswer:
    """Make a data target, or say of the one there is what it is now."""
    target = work.session.scalars(select(DataTarget).where(DataTarget.name == name).with_for_update()).one_or_none()
    if target is None:
        target = DataTarget(name=name, type="", destination="", created_at_ms=now_ms())
        work.session.add(target)
    place = HistoryPlace(Thing.DATA_TARGET, entity=name)
    set_field(work, place, target, "type", type_)
    set_field(work, place, target, "destination", clean(destination))
    work.session.flush()
    return TargetAnswer.of(target)


def find_target(session: Session, name: str, *, lock: bool = False) -> DataTarget:
    """Return the data target called `name`; RefusedError if there is none."""
    query = select(DataTarget).where(DataTarget.name == name)
    target = session.scalars(query.with_for_update() if lock else query).one_or_none()
    if target is None:
        hint = "see GET /v1/data_targets for those there are, or make it with PUT"
        raise RefusedError(Code.UNKNOWN_DATA_TARGET, f"there is no data target {name!r}", hint)
    return target


def delete_target(work: UnitOfWork, name: str) -> TargetAnswer:
    """Forget a data target that no consumer group fills. Raises RefusedError."""
    target = find_target(work.session, name, lock=True)
    query = select(ConsumerGroup.name).where(ConsumerGroup.data_target_id == target.id)
    groups = work.session.scalars(query.order_by(ConsumerGroup.name)).all()
    if groups:
        message = f"data target {name!r} is filled by {', '.join(groups)}"
        raise RefusedError(Code.STILL_USED, message, "delete those consumer groups first")
    answer = TargetAnswer.of(target)
    work.session.delete(target)
    add_change(work, HistoryPlace(Thing.DATA_TARGET, entity=name), "name", (name, ""))
    return answer


def read_targets(session: Session, asked: TargetQuery) -> TargetList:
    """List data targets, by name."""
    query = select(DataTarget)
    if asked.type:
        query = query.where(DataTarget.type == asked.type)
    found, following = read_page(session, query, [DataTarget.name], asked.window)
    return TargetList(items=[TargetAnswer.of(each) for each in found], next=following)


def put_group(work: UnitOfWork, name: str, data_target: str) -> GroupAnswer:
    """Make a consumer group, or say of the one there is which data target it fills now."""
    target = find_target(work.session, data_target, lock=True)
    query = select(ConsumerGroup).where(ConsumerGroup.name == name).with_for_update(of=ConsumerGroup)
    group = work.session.scalars(query).one_or_none()
    before = group.data_target.name if group else ""
    if group is None:
        group = ConsumerGroup(name=name, data_target=target, created_at_ms=now_ms())
        work.session.add(group)
    group.data_target = target
    if before != data_target:
        place = HistoryPlace(Thing.CONSUMER_GROUP, entity=name)
        add_change(work, place, "data_target", (before, data_target))
    work.session.flush()
    return GroupAnswer.of(group)


def find_group(session: Session, name: str, *, lock: bool = False) -> ConsumerGroup:
    """Return the consumer group called `name`; RefusedError if there is none."""
    query = select(ConsumerGroup).where(ConsumerGroup.name == name)
    group = session.scalars(query.with_for_update(of=ConsumerGroup) if lock else query).one_or_none()
    if group is None:
        hint = "see GET /v1/consumer_groups for those there are, or make it with PUT"
        raise RefusedError(Code.UNKNOWN_CONSUMER_GROUP, f"there is no consumer group {name!r}", hint)
    return group


def delete_group(work: UnitOfWork, name: str) -> GroupAnswer:
    """Forget a consumer group and what it reads."""
    group = find_group(work.session, name, lock=True)
    answer = GroupAnswer.of(group)
    for source in work.session.scalars(select(DataSource).where(DataSource.consumer_group_id == group.id)):
        work.session.delete(source)
    work.session.flush()
    work.session.delete(group)
    add_change(work, HistoryPlace(Thing.CONSUMER_GROUP, entity=name), "name", (name, ""))
    return answer


def read_groups(session: Session, asked: GroupQuery) -> GroupList:
    """List consumer groups, by name."""
    query = select(ConsumerGroup)
    if asked.data_target:
        query = query.join(DataTarget).where(DataTarget.name == asked.data_target)
    found, following = read_page(session, query, [ConsumerGroup.name], asked.window)
    return GroupList(items=[GroupAnswer.of(each) for each in found], next=following)


def add_data_source(work: UnitOfWork, name: str, scoped: Scoped) -> DataSourceAnswer:
    """Say that a consumer group reads something; saying it again changes nothing."""
    group = find_group(work.session, name, lock=True)
    query = select(DataSource).where(
        DataSource.consumer_group_id == group.id,
        DataSource.scope == scoped.scope,
        DataSource.entity_id == scoped.entity_id,
    )
    source = work.session.scalars(query).one_or_none()
    if source is None:
        source = DataSource(
            consumer_group=group, scope=scoped.scope, entity_id=scoped.entity_id, created_at_ms=now_ms()
        )
        work.session.add(source)
        work.session.flush()
        _record(work, source, ("", name_scoped(work.session, source.scope, source.entity_id).text))
    return _answer(work.session, source)


def delete_data_source(work: UnitOfWork, name: str, source_id: int) -> DataSourceAnswer:
    """Say that a consumer group reads something no more. Raises RefusedError if it never did."""
    group = find_group(work.session, name, lock=True)
    query = select(DataSource).where(DataSource.consumer_group_id == group.id)
    source = next((each for each in work.session.scalars(query) if each.id == source_id), None)
    if source is None:
        message = f"consumer group {name!r} has no data source {source_id}"
        raise RefusedError(Code.UNKNOWN_DATA_SOURCE, message, "see its data sources for those there are")
    answer = _answer(work.session, source)
    _record(work, source, (name_scoped(work.session, source.scope, source.entity_id).text, ""))
    work.session.delete(source)
    return answer


def read_data_sources(session: Session, name: str, window: Window) -> DataSourceList:
    """List what a consumer group reads, the oldest first."""
    query = select(DataSource).where(DataSource.consumer_group_id == find_group(session, name).id)
    found, following = read_page(session, query, [DataSource.id], window)
    return DataSourceList(items=[_answer(session, each) for each in found], next=following)


def _record(work: UnitOfWork, source: DataSource, values: tuple[str, str]) -> None:
    place = HistoryPlace(Thing.CONSUMER_GROUP, entity=source.consumer_group.name)
    add_change(work, place, "data_source", values)


def _answer(session: Session, source: DataSource) -> DataSourceAnswer:
    named = name_scoped(session, source.scope, source.entity_id)
    return DataSourceAnswer(
        id=source.id,
        consumer_group=source.consumer_group.name,
        scope=named.scope,
        namespace=named.namespace,
        table=named.table,
        topic=named.topic,
        created_at_ms=source.created_at_ms,
    )
