"""Processes ranges of topics in the driver: for spolts whose transforms have expressions."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError
from penstock.links.spolts.load import load_code
from penstock.links.spolts.process import RangeProcessor
from penstock.links.spolts.transform_code import Transforms
from penstock.wiring.open import open_subjects, open_topic_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.core.transforms.changes import Evaluate
    from penstock.links.spolts.plan import InputRange
    from penstock.links.spolts.process import RangeProcessed
    from penstock.links.spolts.spec import SpoltJob


class DriverProcessing:
    """A spolt with expressions, ready to be run in the driver."""

    def __init__(self, evaluate: Evaluate, pipeline: PipelineSpec, job: SpoltJob) -> None:
        """Evaluate expressions with `evaluate`. Raises UsageError as `load_code`."""
        code = load_code(job.spolt)
        if isinstance(code.function, Transforms):
            code = replace(code, function=replace(code.function, evaluate=evaluate))
        self._log, self._subjects = open_topic_log(pipeline), open_subjects(pipeline)
        self._processor = RangeProcessor(job, code, self._log, self._subjects)

    def process(self, ranges: Sequence[InputRange]) -> list[RangeProcessed]:
        """Process ranges, in order; raises what `RangeProcessor.process` does."""
        return list(self._processor.process(ranges))

    def close(self) -> None:
        """Let go of Kafka and of the registry."""
        with suppress(PenstockError):
            self._log.close()
        self._subjects.close()
