"""What a pipeline's file may say of its live page."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic reads it from a field's annotation
from typing import Self

from pydantic import model_validator

from penstock.config.spec import Port, Spec, Text
from penstock.core.hosts import is_loopback

LOOPBACK = "127.0.0.1"


class WebTlsSpec(Spec):
    """The certificate that the page is served with, and its key where that is in a file of its own; both in PEM."""

    cert: Path
    key: Path | None = None


class WebSpec(Spec):
    """The live page, metrics and health of `penstock run`. Without `port` a free one, the same each time.

    `web: false` in the file turns it off: the pipeline's `web` is None then. Without
    `users` the page is on loopback alone, and whoever has a login on the machine may read
    it, and pause, resume, skip, drop and snapshot tables unless `actions` is false. With
    `users`, a file of `penstock schematizer user`, the role read reads and the role write acts.
    """

    host: Text = LOOPBACK
    port: Port | None = None
    actions: bool = True
    users: Path | None = None
    tls: WebTlsSpec | None = None
    behind_proxy: Text | None = None

    def url(self, port: int) -> str:
        """Where the page is."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{port}/"

    @property
    def meaning(self) -> str:
        """Where it is and for whom, in words."""
        where = f"on {self.host}" + (f", port {self.port}" if self.port else "")
        return f"{where}, for {f'users of {self.users}' if self.users else 'whoever has a login on this machine'}"

    @model_validator(mode="after")
    def _refuse_open_doors(self) -> Self:
        """Refuse what would let strangers in, or show them passwords."""
        is_exposed = self.behind_proxy is not None or not is_loopback(self.host)
        where = "behind a proxy" if self.behind_proxy else f"on {self.host}"
        if is_exposed and self.users is None:
            add = "penstock schematizer user add NAME --users users.yaml --role write"
            message = (
                f"{where}, everybody who reaches the page could stop tables, for it has no users; type: {add}, "
                "then add users: users.yaml; or leave host and behind_proxy out"
            )
            raise ValueError(message)
        if is_exposed and self.tls is None and self.behind_proxy is None:
            message = (
                f"{where}, passwords would cross the network as they are; "
                "add tls: {cert: FILE, key: FILE}, or behind_proxy: ADDRESS where a proxy ends TLS"
            )
            raise ValueError(message)
        return self

    def located(self, directory: Path) -> WebSpec:
        """Return it with files that are named from `directory` on named from the root."""
        tls = self.tls and self.tls.model_copy(
            update={
                "cert": (directory / self.tls.cert).resolve(),
                "key": self.tls.key and (directory / self.tls.key).resolve(),
            }
        )
        return self.model_copy(update={"users": self.users and (directory / self.users).resolve(), "tls": tls})
