"""What a wheel has otherwise than a checkout: it is smaller, because these files are compressed."""

import gzip
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_EXAMPLES = "app/http/openapi/examples.yaml"


class CompressedFiles(BuildHookInterface):
    """The server sends these files as they are then, and a client without a server is small."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compress them into a directory of their own, from which the wheel takes them."""
        if version == "editable":
            return
        root, self._made = Path(self.root), tempfile.TemporaryDirectory()
        web = [path for kind in ("js", "css", "ftl") for path in (root / "app" / "web").rglob(f"*.{kind}")]
        pages = [path for path in (root / "docs").rglob("*.md") if "decisions" not in path.parts]
        places = {path: path.relative_to(root).as_posix() for path in web}
        places |= {path: f"app/{path.relative_to(root).as_posix()}" for path in pages}
        places[root / ".env.example"] = "app/docs/.env.example"
        places[root / _EXAMPLES] = _EXAMPLES
        for number, (path, place) in enumerate(places.items()):
            compressed = Path(self._made.name) / str(number)
            compressed.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
            build_data["force_include"][str(compressed)] = f"{place}.gz"

    def finalize(self, version: str, _build_data: dict[str, Any], _artifact: str) -> None:
        """Remove that directory."""
        if version != "editable":
            self._made.cleanup()
