"""A pipeline whose state is written by hand: what its page, metrics and status are to say."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import httpx
import uvicorn

from penstock.adapters.lock.file import FileLock
from penstock.config.load import load
from penstock.config.places import lock_file
from penstock.core.snapshots import SnapshotOptions, Status, Wanted
from penstock.core.topic_policy import PolicyFinding, PolicyLook, PolicyReport
from penstock.ports.audit_results import WHOLE, AuditResult
from penstock.ports.history import Sample, ServerCondition
from penstock.ports.state import LinkProgress
from penstock.web.server import PromptProtocol, web_settings
from penstock.web.watcher import Watcher
from penstock.wiring.audits import open_results
from penstock.wiring.open import open_history, open_pipeline_state, open_snapshot_list
from penstock.wiring.refreshing import new_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.config.specs import PipelineSpec

CONFIG = """\
pipeline: shop
sources:
  - {name: shopdb, kind: mysql, host: 127.0.0.1, port: 1, user: cdc, password_env: SHOP_PASSWORD, tables: [shop.*]}
sinks:
  - {name: warehouse, kind: duckdb, path: shop.duckdb}
links:
  - {from: shopdb, to: warehouse}
"""

RULES = """\
police: {rules: [{topics: "*", retention: 30d}]}
"""

SPOLT = """\
spolts:
  - {name: big_orders, function: "code:big", from: shopdb.shop.orders, to: {topic: big_orders, schema: same}}
"""

JOIN = """\
join:
  - {topic: shopdb.shop.orders, join_keys: [id]}
  - {topic: shopdb.shop.customers, join_keys: [id]}
output: {namespace: shop, source: business_review_join, doc: orders and customers, pkey: [id]}
"""

LINKS = ("shopdb", "objects", "shopdb-to-warehouse")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


BEGAN_MS = now_ms() - 60_000
"""When the run began."""


@dataclass
class Shop:
    """The pipeline's file, and hands on its state."""

    file: Path

    @property
    def spec(self) -> PipelineSpec:
        return load(self.file)

    def run(self, *, seconds_ago: float = 0) -> None:
        """Write what a healthy run writes."""
        for name in LINKS:
            self.link(name, updated_at_ms=now_ms() - int(seconds_ago * 1000))
        with closing(open_pipeline_state(self.spec)) as state:
            for name in LINKS:
                state.add_rows(name, {"shop.orders": (12_345, now_ms()), "shop.customers": (678, now_ms())})
                state.save_table_lags(name, {"shop.orders": 0, "shop.customers": 0})
        self.servers("running", "running")

    def link(self, name: str, **changes: object) -> None:
        """Write one link, which is well but for `changes`."""
        well = LinkProgress(name, "b:9", "running", 0.0, 0, now_ms(), "", "", 0, 0, now_ms(), BEGAN_MS)
        with closing(open_pipeline_state(self.spec)) as state:
            state.save_link(replace(well, **changes))  # type: ignore[arg-type]  # the fields' own types

    def servers(self, kafka: str, registry: str, restarts: int = 0) -> None:
        """Write how the embedded servers are."""
        with closing(open_history(self.spec)) as history:
            history.save_servers(
                [
                    ServerCondition("Kafka", kafka, now_ms(), restarts),  # type: ignore[arg-type]
                    ServerCondition("Schematizer", registry, now_ms()),  # type: ignore[arg-type]
                ]
            )

    def samples(self, minutes: int, rows_per_second: int) -> None:
        """Write samples of the last minutes."""
        with closing(open_history(self.spec)) as history:
            for step in range(minutes * 6, -1, -1):
                at_ms = now_ms() - step * 10_000
                rows = 1_000_000 - step * 10 * rows_per_second + round(60 * rows_per_second * math.sin(step / 23))
                lag_seconds = 2 + 1.5 * math.sin(step / 9)
                history.add_samples({name: Sample(at_ms, rows, lag_seconds) for name in LINKS})

    def busy(self) -> None:
        """Write what audits, snapshots and police tell."""
        with closing(open_snapshot_list(self.spec)) as snapshots:
            for table, status, rows, error in (
                ("shop.orders", Status.RUNNING, 3_200_000, ""),
                ("shop.customers", Status.PAUSED, 40_000, ""),
                ("shop.reviews", Status.FAILED, 10, "the SELECT privilege is gone"),
            ):
                asked = new_snapshot("shopdb", table, SnapshotOptions())
                snapshots.add(asked)
                if status is Status.PAUSED:
                    snapshots.want(asked.id, Wanted.PAUSE)
                told = replace(asked, status=status, rows=rows, rows_expected=4_000_000, error=error)
                hint = "type: GRANT SELECT ON shop.reviews TO cdc" if error else ""
                snapshots.tell(replace(told, started_at_ms=now_ms() - 900_000, ran_ms=600_000, hint=hint))
        link = "shopdb-to-warehouse"
        equal = AuditResult(link, WHOLE, now_ms() - 60_000, "below", 0.75, 0.7, 0.8, threshold=1.0, seconds=3.5)
        with closing(open_results(self.spec)) as results:
            results.add(
                [
                    equal,
                    replace(equal, table="shop.customers", state="equal", score=1.0, lower=1.0, upper=1.0, rows=678),
                    replace(equal, table="shop.orders", state="different", is_below=True, rows=12_345, wrong_rows=31),
                ]
            )
        topic, rule = "shopdb.shop.orders", "retention.ms"
        findings = (
            PolicyFinding(topic, rule, "604800000", "2592000000", "drift"),
            PolicyFinding(topic, "partitions", "4", "8", "refused", "order of keys", "make it anew with 8"),
            PolicyFinding("shopdb.shop.reviews", rule, "1", "604800000", "set"),
        )
        with closing(open_history(self.spec)) as history:
            history.save_police(PolicyLook(now_ms() - 200_000, PolicyReport(12, ("other.topic",), findings)))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the pipeline's lock, as an instance that runs it."""
        lock = FileLock(lock_file(self.spec))
        lock.acquire(0)
        try:
            yield
        finally:
            lock.release()


class HastyProtocol(PromptProtocol):
    """The page's protocol, which waits for less long."""

    head_seconds = 0.5
    read_seconds = 0.3


@contextlib.contextmanager
def served(shop: Shop) -> Iterator[httpx.Client]:
    """A client of the page, which a thread of this process serves."""
    with socket.create_server(("127.0.0.1", 0)) as listener, Watcher(shop.spec, shop.file) as watcher:
        server = uvicorn.Server(web_settings(watcher, HastyProtocol))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            until(lambda: server.started and (seen := watcher.newest()) is not None and seen.has_asked)
            address = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(10)


def until(is_so: object, seconds: float = 20.0) -> None:
    """Wait until `is_so()`."""
    assert callable(is_so)
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come so"
        time.sleep(0.05)
