"""What the user code of a spolt imports: see docs/spolts.md, and `penstock.spolts.testing` for its tests.

from penstock.spolts import Message, Output

def big_orders(message: Message):
    if message.operation in ("c", "u") and message.after["total"] > 100:
        yield Output({"id": message.after["id"], "total": message.after["total"]})
"""

from __future__ import annotations

from penstock.core.spolts.message import (
    SAME_KEY,
    BatchFunction,
    DeadLetter,
    DeadLetterError,
    Message,
    MessageFunction,
    Output,
    Yielded,
    spolt,
)
from penstock.core.spolts.row_images import Record

__all__ = [
    "SAME_KEY",
    "BatchFunction",
    "DeadLetter",
    "DeadLetterError",
    "Message",
    "MessageFunction",
    "Output",
    "Record",
    "Yielded",
    "spolt",
]
