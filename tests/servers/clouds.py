"""A bucket of each kind of store that files may be kept in, behind a real server, and the keys that open it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.servers import azurite

from penstock.adapters.objects.store import ObjectsSpec
from penstock.dev import s3
from penstock.embedded.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Cloud:
    """A bucket's URL, the path of its endpoint, and its keys as the environment has them."""

    url: str
    endpoint_path: str
    keys: Mapping[str, str]

    def endpoint(self, port: int) -> str:
        """The server at `port`, as a config has it."""
        return f"http://{LOOPBACK}:{port}{self.endpoint_path}"


@dataclass(frozen=True, slots=True)
class CloudPlace:
    """An empty folder of a cloud whose server listens on `port`."""

    cloud: Cloud
    port: int
    folder: str

    @property
    def url(self) -> str:
        """The folder."""
        return f"{self.cloud.url}/{self.folder}"

    @property
    def endpoint(self) -> str:
        """Its server."""
        return self.cloud.endpoint(self.port)

    def spec(self, *, port: int = 0, bucket: str = "", timeout_seconds: float = 20.0) -> ObjectsSpec:
        """How it is opened; through another `port`, or as a folder of another `bucket`."""
        url = f"{self.cloud.url.partition('://')[0]}://{bucket}/{self.folder}" if bucket else self.url
        return ObjectsSpec(url, self.cloud.endpoint(port or self.port), timeout_seconds=timeout_seconds)


# With such an account no token is asked for: only Google has a server of tokens.
_NOBODY: Final = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}

CLOUDS: Final[Mapping[str, Cloud]] = {
    "s3": Cloud(
        f"s3://{s3.BUCKET}",
        "",
        {"AWS_ACCESS_KEY_ID": s3.ACCESS_KEY_ID, "AWS_SECRET_ACCESS_KEY": s3.SECRET_ACCESS_KEY},
    ),
    "gcs": Cloud(f"gs://{s3.BUCKET}", "", {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(_NOBODY)}),
    "azure": Cloud(
        f"az://{azurite.CONTAINER}",
        f"/{azurite.ACCOUNT}",
        {"AZURE_STORAGE_ACCOUNT_NAME": azurite.ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": azurite.KEY},
    ),
}
"""By the name of the fixture of its server. A new kind of store adds one here."""
