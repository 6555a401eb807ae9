"""Settings that every test needs."""

from __future__ import annotations

import os

import hypothesis

# A slow machine must not fail a property that holds, and a failure must be the same the next time.
hypothesis.settings.register_profile("penstock", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2_000)
hypothesis.settings.register_profile("fuzz", deadline=None, max_examples=50_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "penstock"))
