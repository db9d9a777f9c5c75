"""HeadWitness: remembers the newest hash of each chain in a file, outside the database."""

import json
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import structlog

from app.billing.chain.records import ChainHead
from app.platform.replaced_files import replacing

log = structlog.get_logger(__name__)


class HeadWitness:
    """The heads this process has seen, and those in the file that an earlier one left."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.heads: Mapping[UUID, ChainHead] = _read(path)

    def remember(self, heads: Mapping[UUID, ChainHead]) -> None:
        if heads == self.heads:
            return
        self.heads = dict(heads)
        values = {str(account): [head.position, head.hash.hex()] for account, head in heads.items()}
        try:
            with replacing(self._path, mode=0o600) as written:
                written.write_text(json.dumps(values), encoding="utf-8")
        except OSError as error:
            # They are still in memory.
            log.warning("chain.heads_not_saved", reason=error.strerror)


def _read(path: Path) -> dict[UUID, ChainHead]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return {
            UUID(account): ChainHead(int(position), bytes.fromhex(hash_))
            for account, (position, hash_) in values.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        log.critical("chain.heads_unreadable", path=str(path), reason=type(error).__name__)
        return {}
