"""Stores that are elsewhere: S3, Google's and Azure's, each as the documentation of obstore sets it up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from obstore.store import AzureStore, GCSStore, S3Store

if TYPE_CHECKING:
    from obstore.store import AzureConfig, ClientConfig, GCSConfig, RetryConfig, S3Config

_RETRIES_MAX = 3
_CONNECT_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class Access:
    """How a store is reached: what of `store.ObjectsSpec` is no key. Empty where the environment says it."""

    endpoint: str
    region: str
    timeout_seconds: float

    def client(self) -> ClientConfig:
        """Time-outs of every request, and plain HTTP where the endpoint is that."""
        return {
            "timeout": f"{self.timeout_seconds}s",
            "connect_timeout": f"{min(self.timeout_seconds, _CONNECT_SECONDS_MAX)}s",
            "allow_http": self.endpoint.startswith("http://"),
        }

    def retry(self) -> RetryConfig:
        """Some more tries, within the time of one."""
        return {"max_retries": _RETRIES_MAX, "retry_timeout": timedelta(seconds=self.timeout_seconds)}


def s3_store(url: str, access: Access, keys: tuple[str, str]) -> S3Store:
    """Open s3://bucket/prefix; `keys` are an access key's id and secret, "" for the environment's."""
    parts = urlsplit(url)
    config: S3Config = {"region": access.region}
    if access.endpoint:
        config["endpoint"] = access.endpoint
    if keys[0]:
        config["access_key_id"], config["secret_access_key"] = keys
    prefix = parts.path.strip("/") or None
    return S3Store(
        parts.netloc, prefix=prefix, config=config, client_options=access.client(), retry_config=access.retry()
    )


def gcs_store(url: str, access: Access) -> GCSStore:
    """Open gs://bucket/prefix; its credentials are the environment's."""
    config: GCSConfig = {"base_url": access.endpoint} if access.endpoint else {}
    return GCSStore.from_url(url, config=config, client_options=access.client(), retry_config=access.retry())


def azure_store(url: str, access: Access) -> AzureStore:
    """Open az://container/prefix, or abfs://container@account.dfs.core.windows.net/prefix, as `gcs_store` does."""
    config: AzureConfig = {"endpoint": access.endpoint} if access.endpoint else {}
    return AzureStore.from_url(url, config=config, client_options=access.client(), retry_config=access.retry())
