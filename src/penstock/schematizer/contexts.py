"""Contexts: names of subjects that belong together.

Source: Confluent Schema Registry documentation, "Schema contexts". The subject
`orders-value` of the context `.lab` is called `:.lab:orders-value`; the default
context is called `.`, and its subjects by their plain names. The empty subject
of a context, `:.lab:`, stands for the context where levels and modes are set.
Unlike Confluent's, an id means the same schema in every context.
"""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_CONTEXT = "."
EVERY_CONTEXT = ":*:"


@dataclass(frozen=True, slots=True)
class SubjectName:
    """The two parts of a subject's name."""

    context: str
    plain: str

    def __str__(self) -> str:
        """Return the name by which the registry knows the subject."""
        return self.plain if self.context == DEFAULT_CONTEXT else f":{self.context}:{self.plain}"


def parse_subject(name: str, within: str = DEFAULT_CONTEXT) -> SubjectName:
    """Take a name apart; one without a context is of the context `within`."""
    if not name.startswith(":."):
        return SubjectName(within, name)
    context, _, plain = name[1:].partition(":")
    return SubjectName(context, plain)
