"""Tests that need programs of the system, and what happens where one is missing."""

import os
import shutil

import pytest

REQUIRED = "RUNTALLY_TESTS_REQUIRE_PROGRAMS"
"""Set where every program must be there, so that no test is skipped unseen."""


def require(*programs: str) -> None:
    """Skip the test, or fail it where programs are required, unless all of these are installed."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing and os.environ.get(REQUIRED):
        pytest.fail(f"not installed: {', '.join(missing)}")
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
