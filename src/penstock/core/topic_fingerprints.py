"""What a link knows of the topics that it publishes to, and what it means when they are something else.

A *topic fingerprint* is taken when all transactions of the link are settled. The link's
record then says how many messages each topic got since. So a topic fingerprint, a record and
the topics' own ends explain each other, or somebody else changed the topics:
they were deleted, made anew, cut short, or written to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.core.commands import shell_word
from penstock.core.errors import START_ANEW, PositionError, UnreadableMessageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_Parsed = TypeVar("_Parsed")

NO_TRANSACTIONS: Final = {"transactions": False}
"""What is added to records that are only mirrored in Kafka: nobody may go on from there."""

PARSE_ERRORS: Final = (ValueError, KeyError, TypeError, AttributeError)
"""What parsing JSON of another shape raises."""

_LOST = f"restore it if you can; else delete the topics of this source and {START_ANEW}"
_FOREIGN = f"let only this pipeline write to it; then delete the topics of this source and {START_ANEW}"


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic at one moment: its id (KIP-516; "" where the brokers give none), and the ends of its partitions."""

    id: str
    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicFingerprint:
    """Every topic that a link ever published to, as it was when the `number`-th topic fingerprint was taken."""

    number: int = 0
    topics: Mapping[str, TopicState] = field(default_factory=dict)

    def to_mapping(self) -> dict[str, object]:
        """The topic fingerprint as JSON values."""
        return {
            "number": self.number,
            "topics": {topic: [state.id, *state.ends] for topic, state in sorted(self.topics.items())},
        }

    @classmethod
    def from_mapping(cls, fingerprint: Mapping[str, object]) -> TopicFingerprint:
        """Read a topic fingerprint back; KeyError or ValueError if it is not one of ours."""
        topics = fingerprint["topics"]
        if not isinstance(topics, dict):
            message = "a topic fingerprint without its topics"
            raise ValueError(message)  # noqa: TRY004 - bad data, not a bad call
        return cls(
            int(str(fingerprint["number"])),
            {topic: TopicState(str(state[0]), tuple(map(int, state[1:]))) for topic, state in topics.items()},
        )


@dataclass(frozen=True, slots=True)
class Since:
    """What a record says: the topic fingerprint that it builds on, and how many messages each topic got after it."""

    fingerprint: int
    messages: Mapping[str, int]

    def to_mapping(self) -> dict[str, object]:
        """What goes into the record, as JSON values."""
        return {"seal": self.fingerprint, "since": dict(self.messages)}

    @classmethod
    def of_record(cls, record: Mapping[str, object]) -> Since | None:
        """Read it from a record; None for one of an older release, ValueError if it is not one of ours."""
        if "seal" not in record:
            return None
        messages = record["since"]
        if not isinstance(messages, dict):
            message = "a position record without the messages since its topic fingerprint"
            raise ValueError(message)  # noqa: TRY004 - bad data, not a bad call
        return cls(int(str(record["seal"])), {topic: int(count) for topic, count in messages.items()})

    def after(self, fingerprint: TopicFingerprint) -> Mapping[str, int]:
        """How many messages each topic got after `fingerprint`, which is the newest there is.

        It may be newer than the record: then it was taken behind all that the
        record covers. Raises PositionError if it is older.
        """
        if fingerprint.number < self.fingerprint:
            newest = fingerprint.number
            message = (
                f"the link's record builds on topic fingerprint {self.fingerprint}, but the newest in Kafka is {newest}"
            )
            raise PositionError(
                message, f"the topic of topic fingerprints was deleted or restored from an older copy: {START_ANEW}"
            )
        return self.messages if fingerprint.number == self.fingerprint else {}


def require_same(topic: str, expected: TopicState, found: tuple[str, int] | None) -> None:
    """Raise PositionError unless `found`, an id and a number of partitions, is topic `expected`; None: it is gone."""
    if found is None:
        message = f"topic {topic} is gone: it was deleted; it had messages up to {_places(topic, expected)}"
        raise PositionError(message, _LOST)
    found_id, partitions = found
    require_id(topic, expected.id, found_id)
    require_partitions(topic, len(expected.ends), partitions)


def require_partitions(topic: str, before: int, now: int) -> None:
    """Raise PositionError if a topic has another number of partitions than before."""
    if before != now:
        message = f"topic {topic} had {before} partition(s) and now has {now}"
        hint = "messages of one key would be in two of them, out of order: delete the topics of this source and "
        raise PositionError(message, hint + START_ANEW)


def require_id(topic: str, before: str, now: str) -> None:
    """Raise PositionError if a topic has another id than before; "" where one is not known."""
    if before and now and before != now:
        message = f"topic {topic} was deleted and recreated: its id was {before} and is {now}"
        raise PositionError(message, _LOST)


def require_grown(topic: str, expected: TopicState, ends: Sequence[int], since: int) -> None:
    """Raise PositionError unless partitions that end at `ends` can be the `expected` with `since` messages more."""
    for partition, (before, now) in enumerate(zip(expected.ends, ends, strict=True)):
        if now < before:
            message = f"{topic}/{partition} ends at {now}, but was written up to {before}: the brokers lost the rest"
            raise PositionError(message, _LOST)
    grown = sum(ends) - sum(expected.ends)
    if grown < since:
        raise _fewer(topic, expected, since, grown, "at most ")


def require_count(topic: str, expected: TopicState, since: int, found: int) -> None:
    """Raise PositionError if `found` committed messages are not the `since` that were published after a fingerprint.

    Too many are foreign: call this for them only where none of them can be told to be.
    """
    if found < since:
        raise _fewer(topic, expected, since, found)
    if found > since:
        message = (
            f"topic {topic} has {found} messages after {_places(topic, expected)}, and this pipeline wrote {since} of "
            f"them; each looks like one of this pipeline's, so somebody wrote them again"
        )
        raise PositionError(message, _FOREIGN)


def require_place(topic: str, partition: int, place: int, end: int | None) -> None:
    """Raise PositionError unless a partition that was read up to `place` can end at `end`; None if there is none."""
    if end is None and place > 0:
        message = f"{topic}/{partition} is gone, and was read up to offset {place}: the topic was deleted"
        raise PositionError(message, _LOST)
    if end is not None and end < place:
        message = f"{topic}/{partition} ends at {end}, but was read up to {place}: it was recreated or cut short"
        raise PositionError(message, _LOST)


def require_mirrored(records: str, mirrored: Mapping[str, int], ends: Mapping[str, int]) -> None:
    """Raise PositionError if Kafka is older than the state database, which only ever follows it.

    Both are ends of partitions, by `topic/partition`; what does not exist is left
    out of `ends`. `records` is the partition of the position records.
    """
    for place in [records, *sorted(mirrored)]:
        before, now = mirrored.get(place, 0), ends.get(place, 0)
        if now < before:
            message = f"the state database has seen {place} up to offset {before}, but it ends at {now}"
            hint = "Kafka lost its data, was restored from an older copy, or is another one: bring back the newest"
            raise PositionError(message, f"{hint}, or {START_ANEW}")


def require_authority(link: str, record: Mapping[str, object]) -> None:
    """Raise PositionError for a record in Kafka that only mirrors what the state database has."""
    if record.get("transactions") is False:
        message = f"{link} has run with kafka.transactions: false, and its position is in the state database"
        raise PositionError(message, f"kafka.transactions stays as it is for a pipeline: set it back, or {START_ANEW}")


def read_own(topic: str, offset: int, value: bytes, parse: Callable[[bytes], _Parsed]) -> _Parsed:
    """Parse a message of JSON in partition 0 of `topic`; PositionError if it is none of ours."""
    try:
        return parse(value)
    except PARSE_ERRORS as error:
        raise foreign_message(topic, 0, offset, f"it does not parse ({type(error).__name__}: {error})") from error


def foreign_message(
    topic: str, partition: int, offset: int, fault: str, table: str = "", hint: str = _FOREIGN
) -> UnreadableMessageError:
    """What to raise for a message that this pipeline did not write, or cannot have written there.

    In the topic of one `table` it stops that table alone; elsewhere `hint` says what to do.
    """
    message = f"{topic}/{partition} has a foreign message at offset {offset}: {fault}"
    return UnreadableMessageError((topic, partition), offset, message, bring_back(table) if table else hint)


def bring_back(table: str, first: str = "let only this pipeline write to it") -> str:
    """What to do where the topic of one table cannot be read on: the table begins anew behind all that is there."""
    anew = f"penstock snapshot FILE {shell_word(table)} --full-refresh"
    return f"{first}; then have the table begin anew: {anew} (--full-lock where it has no primary key)"


def empty_join(name: str) -> str:
    """What to do where the topic of a joined table cannot be read on: the join begins anew behind all that is there."""
    anew = f"penstock joinery rebuild FILE {name} --empty, then penstock run FILE"
    return f"let only this pipeline write to it; then stop it, and have the table emptied and filled: {anew}"


def other_writer(place: tuple[str, int], end: int, what: str) -> PositionError:
    """What to raise for a partition that holds more than this pipeline wrote, which is up to `end`."""
    topic, partition = place
    message = f"{topic}/{partition} has {what} after offset {end} that this pipeline did not write"
    hint = "another instance of it, or somebody else, writes there, which kafka.transactions: false cannot prevent"
    return PositionError(message, f"{hint}: {_FOREIGN}")


def too_many_partitions(topic: str, found: int, wanted: int) -> PositionError:
    """What to raise for a topic with more partitions than the config says, of which nobody would read the others."""
    message = f"topic {topic} has {found} partitions, and kafka.partitions is {wanted}"
    hint = f"set kafka.partitions (of a join: output.partitions) to {found} or more"
    return PositionError(message, f"{hint}, or delete the topic if it is not in use")


def _fewer(topic: str, expected: TopicState, since: int, found: int, at_most: str = "") -> PositionError:
    where = _places(topic, expected)
    message = f"topic {topic} has {at_most}{found} messages after {where}, and this pipeline wrote {since}"
    return PositionError(f"{message}: the brokers lost some that they had acknowledged", _LOST)


def _places(topic: str, expected: TopicState) -> str:
    return ", ".join(f"{topic}/{partition}:{end}" for partition, end in enumerate(expected.ends))
