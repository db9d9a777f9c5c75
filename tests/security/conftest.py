"""Fixtures only; what they need is in server.py."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest
import pytest_asyncio

from tests.conftest import a_database
from tests.security.server import Target, a_target, a_target_here, an_obedient_model


class OpenTarget(Protocol):
    """The fixture `open_target`."""

    def __call__(self, provider_url: str, **settings: str) -> AbstractAsyncContextManager[Target]:
        """`async with open_target(simulator.url, RUNTALLY_…="…") as target:` serves while the body runs."""
        ...


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def model_url() -> AsyncIterator[str]:
    """A model that does as it is told, see tests.security.model; yields its URL."""
    async with an_obedient_model() as url:
        yield url


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def target(
    postgres: str, redis_url: str, model_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Target]:
    """A server with its usual settings that every story of this worker attacks; make accounts of your own."""
    async with (
        a_database(postgres) as database_url,
        a_target(tmp_path_factory.mktemp("target"), database_url, model_url, REDIS_URL=redis_url) as target,
    ):
        yield target


@pytest.fixture
def open_target(tmp_path: Path, database_url: str) -> OpenTarget:
    """A server of the test's own, with its own settings and model."""
    return partial(a_target, tmp_path, database_url)


@pytest.fixture
def open_target_here(tmp_path: Path, database_url: str) -> OpenTarget:
    """One within the process of the tests."""
    return partial(a_target_here, tmp_path, database_url)
