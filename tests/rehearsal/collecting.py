"""Collect the facts of the environment that this runs in: `python -m tests.rehearsal.collecting FILE`."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from pkgutil import resolve_name

from tests.rehearsal.facts import Fact, dumps

COLLECTORS = (
    "tests.rehearsal.collecting:installed_facts",
    "tests.rehearsal.vendor_names:vendor_facts",
    "tests.rehearsal.collecting:list_price_facts",
    "tests.rehearsal.cli_programs:program_facts",
    "tests.rehearsal.cli_conversation:conversation_facts",
    "tests.rehearsal.cli_failures:failure_facts",
    "tests.rehearsal.cli_models:model_facts",
)
"""By name: a module that cannot be imported with the new release leaves the others alone."""


def collect() -> Iterator[Fact]:
    """All facts; what cannot be collected is a fact as well: often it is what the new release changed."""
    for name in COLLECTORS:
        try:
            yield from list(resolve_name(name)())
        except Exception as error:  # noqa: BLE001 - shown in the table, and the other facts matter too
            yield Fact("not collected", name, f"{type(error).__name__}: {error}", "tests/rehearsal")


_INSTALLERS = {"pip", "setuptools", "uv"}


def installed_facts() -> Iterator[Fact]:
    """The version of each package; what installs them is nobody's dependency."""
    for distribution in distributions():
        if distribution.name.lower() in _INSTALLERS:
            continue
        yield Fact("packages", distribution.name.lower(), distribution.version, "requirements.lock")


def list_price_facts() -> Iterator[Fact]:
    """The public prices, by model."""
    # Like every collector, after the start.
    price_of, models = (
        resolve_name(f"app.billing.prices.library:library_{name}") for name in ("price", "models")
    )
    for model in models():
        price = price_of(model, at=datetime.now(UTC))
        kinds = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
        rates = {kind: getattr(price, kind) for kind in kinds}
        value = {kind: f"{rate.base.normalize():f}" for kind, rate in rates.items() if rate is not None}
        yield Fact("list prices", model, value, "app/billing/prices/library.py")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(dumps(collect()), encoding="utf-8")
