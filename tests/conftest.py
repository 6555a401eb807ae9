"""Settings that every test needs."""

from __future__ import annotations

import os
import signal
import sys

import hypothesis
from tests.suite import (
    pytest_addoption,
    pytest_collection,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_configure_node,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_xdist_make_scheduler,
)

__all__ = [
    "pytest_addoption",
    "pytest_collection",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_configure_node",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_xdist_make_scheduler",
]

# What a shell starts in the background inherits that Ctrl-C is ignored, and so would every program that the
# tests start and send one to.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A run starts hundreds of Python processes: where the machine says that none may keep what it compiled, each would
# compile all of our modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A slow machine must not fail a property that holds, and a failure must be the same the next time.
# What it has tried once it tries again for every change, so it is not much; `make nightly` tries others, and more.
hypothesis.settings.register_profile("penstock", deadline=None, derandomize=True, print_blob=True, max_examples=25)
hypothesis.settings.register_profile("nightly", deadline=None, print_blob=True, max_examples=300)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2_000)
hypothesis.settings.register_profile("fuzz", deadline=None, max_examples=50_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "penstock"))
