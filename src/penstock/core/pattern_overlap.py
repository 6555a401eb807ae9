"""Whether two lists of table patterns can mean the same table."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_STATES_MAX: Final = 20_000
_EXCLUDED: Final = "!"
_ANY_TABLE: Final = ("?*.?*",)
"""No name is empty, though `*` may stand for nothing."""
_State: TypeAlias = "tuple[frozenset[int], ...]"


def find_common_table(*lists: Sequence[str]) -> str | None:
    """Return a table that every one of `lists` of patterns means, upper and lower case aside; None if there is none.

    The patterns are as TablePatterns has them. Where the answer would take very
    long, it is the patterns themselves: who asks should not rely on luck.
    """
    lists = (*lists, _ANY_TABLE)
    patterns = [pattern.casefold() for each in lists for pattern in each]
    tokens = [_tokens(pattern.removeprefix(_EXCLUDED)) for pattern in patterns]
    alphabet = _alphabet(patterns)
    start: _State = tuple(_closure(each, {0}) for each in tokens)
    seen, waiting = {start}, deque([(start, "")])
    while waiting:
        state, text = waiting.popleft()
        ended = [len(each) in places for each, places in zip(tokens, state, strict=True)]
        if _all_want(lists, ended):
            return text
        if len(seen) > _STATES_MAX:
            return ", ".join(lists[0])
        for character in alphabet:
            after = tuple(_step(each, places, character) for each, places in zip(tokens, state, strict=True))
            if any(after) and after not in seen:
                seen.add(after)
                waiting.append((after, text + character))
    return None


def _all_want(lists: Iterable[Sequence[str]], ended: Sequence[bool]) -> bool:
    """Whether each list has a pattern that matches, and none with `!` that does; `ended` is by pattern."""
    answers = iter(ended)
    for patterns in lists:
        matched = [(pattern.startswith(_EXCLUDED), next(answers)) for pattern in patterns]
        if (True, True) in matched or (False, True) not in matched:
            return False
    return True


def _alphabet(patterns: Iterable[str]) -> list[str]:
    """The characters that any pattern names, and one that stands for all others: plain ones first."""
    named = {character for pattern in patterns for character in pattern} - set("*?!") | {"."}
    other = next(character for character in _plain() if character not in named)
    return [other, *sorted(named)]


def _plain() -> Iterator[str]:
    """Characters that a person would write in a name, and then all there are."""
    yield from "tabcdefghijklmnopqrsuvwxyz"
    yield from map(chr, range(0x100, 0x10000))


def _tokens(pattern: str) -> list[tuple[str, bool]]:
    """Each character of `pattern`, with whether it stands in the schema, whose wildcards stop at the dot."""
    dot = pattern.find(".")
    return [(character, index < dot) for index, character in enumerate(pattern)]


def _closure(tokens: Sequence[tuple[str, bool]], places: set[int]) -> frozenset[int]:
    """Add the places that can be reached because a `*` may stand for nothing."""
    reached = set(places)
    for place in sorted(places):
        follow = place
        while follow < len(tokens) and tokens[follow][0] == "*":
            follow += 1
            reached.add(follow)
    return frozenset(reached)


def _step(tokens: Sequence[tuple[str, bool]], places: frozenset[int], character: str) -> frozenset[int]:
    after: set[int] = set()
    for place in places:
        if place == len(tokens):
            continue
        wanted, in_schema = tokens[place]
        if wanted in {"*", "?"}:
            if not (in_schema and character == "."):
                after.add(place if wanted == "*" else place + 1)
        elif wanted == character:
            after.add(place + 1)
    return _closure(tokens, after)
