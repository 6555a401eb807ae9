"""Whether the looks at how topics are kept come as often as the file says."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec
    from penstock.core.topic_policy import PolicyLook

_SLACK_MS = 60_000


def police_is_overdue(spec: PipelineSpec, look: PolicyLook | None, running_since_ms: int, now_ms: int) -> bool:
    """Whether a pipeline that runs since `running_since_ms` has not looked for more than twice as long as `every`."""
    if spec.police is None or spec.police.every is None or not running_since_ms:
        return False
    newest_ms = max(running_since_ms, 0 if look is None else look.at_ms)
    return now_ms - newest_ms > 2000 * spec.police.every + _SLACK_MS
