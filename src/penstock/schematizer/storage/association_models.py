"""The table of associations: which subject the keys, or the values, of a topic go by."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import BigInteger, Boolean, ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from penstock.schematizer.storage.models import Id, Model, Name, Subject


class Lifecycle(StrEnum):
    """Whether a subject belongs to the one resource that has it, or may be shared."""

    STRONG = "STRONG"
    WEAK = "WEAK"


class Association(Model):
    """A subject of a resource, for its keys or its values (`association_type`).

    A resource is a topic of a cluster: `resource_namespace` is the cluster,
    `resource_id` what no other topic ever had.
    """

    __tablename__ = "associations"
    __table_args__ = (
        UniqueConstraint("resource_id", "resource_type", "association_type"),
        # The name by rule would be longer than databases take.
        UniqueConstraint(
            "resource_name",
            "resource_namespace",
            "resource_type",
            "association_type",
            name="uq_associations_resource",
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    guid: Mapped[str] = mapped_column(String(36))
    resource_namespace: Mapped[str] = mapped_column(Name)
    resource_name: Mapped[str] = mapped_column(Name)
    resource_id: Mapped[str] = mapped_column(Name)
    resource_type: Mapped[str] = mapped_column(String(16))
    association_type: Mapped[str] = mapped_column(String(16))
    subject_id: Mapped[int] = mapped_column(ForeignKey("subjects.id"), index=True)
    lifecycle: Mapped[str] = mapped_column(String(16))
    frozen: Mapped[bool] = mapped_column(Boolean)
    created_at_ms: Mapped[int] = mapped_column(BigInteger)
    updated_at_ms: Mapped[int] = mapped_column(BigInteger)

    subject: Mapped[Subject] = relationship(lazy="joined", innerjoin=True)
