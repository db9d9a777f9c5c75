"""Generates the TypeScript types of the API from the OpenAPI document, for the type checks of `app/web`."""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from app.http.app import documented_app

_PROGRAM = Path(__file__).parents[1] / "clients" / "node_modules" / "openapi-typescript" / "bin" / "cli.js"
_OPTIONS = ("--default-non-nullable", "false")


def main(target: str) -> None:
    """Write the types to this file."""
    with TemporaryDirectory() as directory:
        document = Path(directory) / "openapi.json"
        document.write_text(json.dumps(documented_app().openapi()), encoding="utf-8")
        command = ["node", str(_PROGRAM), str(document), "--output", target, *_OPTIONS]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main(sys.argv[1])
