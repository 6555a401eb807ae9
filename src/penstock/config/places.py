"""Where the parts of a pipeline are, embedded ones under home included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.config.secrets import secret
from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.config.sinks import DeltaSinkSpec
    from penstock.config.specs import PipelineSpec


def state_url(spec: PipelineSpec) -> str:
    """SQLAlchemy's URL of the state database; UsageError if the variable that holds it is not set."""
    if spec.state.url_env is not None:
        return secret(spec.state.url_env)
    return spec.state.url or f"sqlite:///{state_file(spec)}"


def state_file(spec: PipelineSpec) -> Path:
    """The embedded state database."""
    return spec.home / "state.db"


def has_state(spec: PipelineSpec) -> bool:
    """Whether there may be something to read of the pipeline; a look must not make the embedded database.

    Raises UsageError where this user may not look.
    """
    if not spec.is_embedded("state"):
        return True
    file = state_file(spec)
    try:
        return file.exists()
    except PermissionError as error:
        message = f"cannot look for the state database {file}: {error.strerror}"
        raise UsageError(message, "type it as the user who runs the pipeline") from error


def objects_url(spec: PipelineSpec) -> str:
    """The object store's URL, without a trailing slash."""
    return spec.objects.url or (spec.home / "objects").as_uri()


def lake_url(spec: PipelineSpec, sink: DeltaSinkSpec) -> str:
    """The URL of a folder of Delta tables, without a trailing slash; beside the objects unless the file says where."""
    if sink.url is not None:
        return sink.url
    return f"{objects_url(spec)}/_lakes/{sink.name}" if sink.path is None else sink.path.as_uri()


def lake_endpoint(spec: PipelineSpec, sink: DeltaSinkSpec) -> str:
    """The S3 server that keeps it, where that is not Amazon's; else ""."""
    if sink.url is not None or sink.path is not None:
        return sink.endpoint or ""
    return spec.objects.endpoint or ""


def lake_region(spec: PipelineSpec, sink: DeltaSinkSpec) -> str:
    """The region of its bucket, which counts for S3 alone."""
    beside_objects = sink.url is None and sink.path is None
    return spec.objects.region if beside_objects else sink.region


def lock_file(spec: PipelineSpec) -> Path:
    """The leader's lock."""
    return spec.home / f"{spec.pipeline}.lock"


def schema_directory(spec: PipelineSpec) -> Path:
    """Where schemas that the registry told are kept, for when it is away."""
    return spec.home / "schemas"


def log_directory(spec: PipelineSpec) -> Path:
    """Where the logs are written."""
    return spec.home / "logs"


def kafka_client_options(spec: PipelineSpec) -> dict[str, str]:
    """The options that log a client in to Kafka, in librdkafka's names; empty for an open or embedded broker."""
    security = spec.kafka.security
    options: dict[str, str] = {}
    if security.protocol != "PLAINTEXT":
        options["security.protocol"] = security.protocol
    if security.ca_file is not None:
        options["ssl.ca.location"] = str(security.ca_file)
    if security.user is not None and security.password_env is not None:
        options |= {
            "sasl.mechanism": security.mechanism,
            "sasl.username": security.user,
            "sasl.password": secret(security.password_env),
        }
    return options
