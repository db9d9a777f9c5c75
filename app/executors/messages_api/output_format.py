"""The provider's own format for structured answers: which schemas it takes."""

import asyncio
import importlib
from copy import deepcopy
from typing import Any

from app.executors.port import RunPlan


async def load_output_format(plan: RunPlan) -> None:
    """Import the official client if the run needs it: the first time that takes a second and 35 MB."""
    if plan.schemas.answer is not None:
        await asyncio.to_thread(importlib.import_module, "anthropic")


def is_output_format(schema: dict[str, Any]) -> bool:
    """Whether the provider's output format takes the schema as it is; see `load_output_format`.

    The official client knows which part of JSON Schema that is: it rewrites whatever else there is.
    """
    import anthropic

    try:
        return schema.get("type") == "object" and anthropic.transform_schema(deepcopy(schema)) == schema
    except (ValueError, TypeError, AssertionError, AttributeError, KeyError, RecursionError):
        return False
