"""Checks the storage of large contents, by writing one."""

import hashlib
import os
from typing import Final
from uuid import UUID

from app.doctor.report import Check
from app.ids import AccountId
from app.platform.objects.storage import ContentLost, ContentsUnavailable, ObjectStorage
from app.platform.settings import Settings

_NO_ACCOUNT: Final = AccountId(UUID(int=0))


async def check_objects(settings: Settings) -> list[Check]:
    """Write a content, read it and delete it, if there is a storage; raises `ObjectsNotUsable`."""
    if settings.objects is None:
        return []
    storage = ObjectStorage(settings.objects, settings.objects_key, settings.network)
    content = os.urandom(32)
    sha256 = hashlib.sha256(content).hexdigest()
    try:
        await storage.put(_NO_ACCOUNT, sha256, content)
        await storage.get(_NO_ACCOUNT, sha256)
        await storage.delete(_NO_ACCOUNT, sha256)
    except (ContentsUnavailable, ContentLost) as error:
        reason = type(error.__cause__).__name__
        message = f"RUNTALLY_OBJECTS cannot be written, read and deleted: {reason}"
        return [Check("objects", "error", message)]
    encrypted = "" if settings.objects_key is None else ", encrypted with RUNTALLY_OBJECTS_KEY"
    return [Check("objects", "ok", f"large contents are at RUNTALLY_OBJECTS{encrypted}")]
