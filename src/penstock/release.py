"""The number of this release: what the package, messages, services and `--version` say."""

from typing import Final

RELEASE: Final = "0.1.0"
