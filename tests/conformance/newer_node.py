"""Runs the npm packages of this directory, which need a newer Node than most systems have."""

import asyncio
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from tests.clients.node import install, node

HERE = Path(__file__).parent


async def run_package(
    program: str,
    *arguments: str,
    variables: Mapping[str, str] | None = None,
    statuses: Collection[int] = (0,),
) -> str:
    """Run a program of a package, see `node`; where the lock has no Node for the system, with its own."""
    packages = await asyncio.to_thread(install, HERE)
    locked = next(packages.glob("node-*/bin/node"), None)
    found = locked or Path(shutil.which("node") or "node")
    path = str(packages / program)
    return await node(path, *arguments, variables=variables, runtime=found, statuses=statuses)
