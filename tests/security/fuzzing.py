"""schemathesis against a running server: every check, over its own OpenAPI document."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

from tests.e2e.servers import ROOT
from tests.security import openapi_hooks
from tests.security.server import Target

PROGRAM = Path(sys.executable).with_name("schemathesis")


async def fuzzed(target: Target, key: str, *, paths: str, examples: int, seed: int) -> tuple[int, str]:
    """Send what fits the document and what does not to these paths (a pattern); the exit code and the report.

    Text with U+0000 in it is refused everywhere, which JSON Schema cannot say once for all fields.
    """
    options = {
        "--header": f"Authorization: Bearer {key}",
        "--include-path-regex": paths,
        "--checks": "all",
        "--max-examples": str(examples),
        "--phases": "examples,coverage,fuzzing",
        "--seed": str(seed),
        "--request-timeout": "20",
        "--generation-allow-x00": "false",
        "--generation-database": "none",
        "--warnings": "off",
    }
    command = [str(PROGRAM), "run", f"{target.url}/openapi.json", "--continue-on-failure", "--no-color"]
    program = await asyncio.create_subprocess_exec(
        *(*command, *(part for option in options.items() for part in option)),
        cwd=target.directory,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "SCHEMATHESIS_HOOKS": openapi_hooks.__name__,
            openapi_hooks.OWN_KEY: await _id_of(target, key),
        },
        stdout=PIPE,
        stderr=STDOUT,
    )
    output, _ = await program.communicate()
    return program.returncode or 0, output.decode()


async def _id_of(target: Target, key: str) -> str:
    async with target.client(key) as http:
        keys = (await http.get("/v1/keys")).raise_for_status().json()["items"]
    (own,) = (each["id"] for each in keys if key.startswith(each["prefix"]))
    assert isinstance(own, str)
    return own
