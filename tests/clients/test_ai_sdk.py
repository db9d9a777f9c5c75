"""The Vercel AI SDK's own chats against a running server: the oldest release and the newest."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from app.simulator.script import Answer, ApiRequest, Hold, HttpError, Reply, Text, ToolUse
from tests.clients.node import node
from tests.conftest import a_database
from tests.e2e.office import MAIL, Office, office, settings
from tests.e2e.stories import CLOCK, KEY, World, a_world
