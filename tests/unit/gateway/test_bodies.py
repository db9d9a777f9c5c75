"""What the provider does not get of an agent's request."""

import json
from pathlib import Path

from app.gateway.bodies import HiddenDirectory


def test_a_hidden_directory_has_another_name_also_where_the_cli_derives_one(tmp_path: Path) -> None:
    link = tmp_path / 'ru"ns é'
    # It contains the other one.
    directory = tmp_path / "mnt" / str(link).lstrip("/")
    directory.mkdir(parents=True)
    link.symlink_to(directory)
    hidden = HiddenDirectory(link, entries="server-[0-9]")
    derived = str(directory).replace("/", "-").replace("_", "-").replace('"', "-").replace(" é", "--")
    text = f"{directory}/server-1/{derived}-server-1-work and {link}/server-2/x, /elsewhere"
    of_a_user = f"{directory}, {directory}/serverless/, {derived}"

    def sent(text: str) -> str:
        body = json.dumps({"text": text}, ensure_ascii=False).encode()
        found: str = json.loads(hidden.remove_from(body))["text"]
        return found

    assert sent(text) == "/agent/server-1/-agent-server-1-work and /agent/server-2/x, /elsewhere"
    assert sent(of_a_user) == of_a_user
