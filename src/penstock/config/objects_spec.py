"""What a pipeline's YAML file may say of its files: where they are kept, how they are written, and for how long."""

from __future__ import annotations

import math
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from penstock.config.rules import ObjectsUrl, WebUrl  # noqa: TC001 - pydantic reads them from annotations
from penstock.config.spec import Spec, Text
from penstock.core.file_formats import Compression, FormatName  # noqa: TC001 - pydantic reads them from annotations

_HOURS_MAX: Final = 876_000


def _read_hours(said: object) -> float:
    """Read how long files stay; `forever` is without end."""
    if said == "forever":
        return math.inf
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 <= said <= _HOURS_MAX:
        text = f"should be a number from 0 to {_HOURS_MAX}, or forever"
        raise ValueError(text)
    return said


class ObjectsSpec(Spec):
    """An object store and the files in it; without `url` they are in a directory under home.

    `url` is s3://bucket/prefix, gs://bucket/prefix, az://container/prefix (or
    abfs://) or file:///directory; `endpoint` is for a server that speaks S3's,
    Google's or Azure's protocol and is not theirs, `region` is S3's. Keys are in the
    environment, as every tool of these stores reads them.

    A file is closed when what waits in a topic partition has `batch_rows_max` rows
    or `batch_mebibytes_max` (as messages), has waited for `batch_seconds`, or its
    schema changes; with 0 seconds, as soon as there is anything. Files that every
    target has loaded are deleted `keep_hours` after they were written, but for those
    of tables that no snapshot brings back; by default after a week, or never where brokers
    cannot do transactions.

    A file of up to `inline_bytes_max` is in its batch message, and not in the store; see
    `PipelineSpec.inline_bytes_max`.
    """

    url: ObjectsUrl | None = None
    endpoint: WebUrl | None = None
    region: Text = "us-east-1"
    format: FormatName = "parquet"
    compression: Compression = "zstd"
    batch_rows_max: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 100_000
    batch_mebibytes_max: Annotated[int, Field(strict=True, ge=1, le=512)] = 64
    batch_seconds: Annotated[float, Field(strict=True, ge=0, le=86_400)] = 0.0
    keep_hours: Annotated[float, BeforeValidator(_read_hours)] | None = None
    inline_bytes_max: Annotated[int, Field(strict=True, ge=0, le=65_536)] | None = None
