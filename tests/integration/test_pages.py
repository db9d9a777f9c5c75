import re
from pathlib import Path

import pytest

from app.http.api.pages.files import WEB
from app.simulator.script import in_turn
from tests.e2e.stories import WorldOf, a_client

_IMPORT = re.compile(r"""^(?:import|export)\b[^;"'=()]*["']([^"']+)["']""", re.MULTILINE)


async def test_pages_allow_no_foreign_content(world_of: WorldOf) -> None:
    world = await world_of(in_turn())

    async with a_client(world.url) as browser:
        del browser.headers["Authorization"]
        docs = ("/assets/swagger-ui-bundle.js", "/assets/swagger-ui.css")
        for path in ("/", "/assets/chat.js", "/assets/style.css", "/assets/icon.svg", *docs):
            response = await browser.get(path)
            policy = response.headers["content-security-policy"]
            assert response.status_code == 200, path
            assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(
                policy.split("; ")
            )
            assert "unsafe" not in policy
            assert response.headers["x-content-type-options"] == "nosniff"
            again = await browser.get(path, headers={"If-None-Match": response.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
        for path in ("/assets/chat.js", docs[0]):
            script = await browser.get(path)
            assert "javascript" in script.headers["content-type"], path
            assert "function" in script.text, path
        for path in ("/assets/", "/assets/none.js", "/assets/..%2f..%2fpyproject.toml", "/assets/%00"):
            assert (await browser.get(path)).json()["code"] == "not_found", path


async def test_no_page_loads_anything_from_another_server(world_of: WorldOf) -> None:
    world = await world_of(in_turn())

    page = await world.http.get("/docs")

    policy = page.headers["content-security-policy"]
    assert policy.partition("script-src ")[2].partition(";")[0] == "'self'"
    assert "//" not in policy
    for html in WEB.glob("*.html"):
        assert re.findall(r'(?:src|href)="(?!\./|#|\$\{root\})[^"]*"', html.read_text("utf-8")) == [], (
            html.name
        )
    assert (await world.http.get("/redoc")).status_code == 404


@pytest.mark.parametrize("path", sorted(WEB.rglob("*.js")), ids=lambda path: path.name)
def test_modules_import_existing_files(path: Path) -> None:
    imported = _IMPORT.findall(path.read_text(encoding="utf-8"))

    here = [(name, f"{name}.gz") for name in imported]
    assert [names for names in here if not any((path.parent / name).is_file() for name in names)] == []


def test_vendored_libraries_have_a_licence_and_a_version() -> None:
    listed = (WEB / "vendor" / "README.md").read_text(encoding="utf-8")

    for path in (WEB / "vendor").glob("*.js*"):
        package = path.name.partition(".")[0].partition("-")[0]
        assert (WEB / "vendor" / f"{package}.LICENSE").is_file(), path.name
        assert re.search(rf"\| `{path.name}` \| `\S+` \| \d+\.\d+\.\d+ \|", listed), path.name


async def test_only_listed_origins_may_frame_the_chat(world_of: WorldOf) -> None:
    shop = "https://shop.example.org"
    world = await world_of(in_turn(), RUNTALLY_EMBED_ORIGINS=f"{shop},http://localhost:3000")

    async with a_client(world.url) as browser:
        del browser.headers["Authorization"]
        page = await browser.get("/embed", params={"graph": "messages:assistant", "origin": shop})
        refused = [
            await browser.get("/embed", params={"origin": origin})
            for origin in (
                "",
                "*",
                "null",
                "https://other.example.org",
                f"{shop} *",
                f"{shop}/",
                f"{shop}.evil.org",
            )
        ]
        script = await browser.get("/embed.js")
        again = await browser.get("/embed.js", headers={"If-None-Match": script.headers["etag"]})
        own = await browser.get("/")

    assert f"frame-ancestors {shop}" in page.headers["content-security-policy"].split("; ")
    assert "x-frame-options" not in page.headers
    assert {(each.status_code, each.json()["code"]) for each in refused} == {(403, "embedding_refused")}
    assert script.headers["cross-origin-resource-policy"] == "cross-origin"
    assert script.headers["access-control-allow-origin"] == "*"
    assert "javascript" in script.headers["content-type"]
    assert len(script.content) < 12_000
    assert again.status_code == 304
    assert "frame-ancestors 'none'" in own.headers["content-security-policy"]
    assert own.headers["x-frame-options"] == "DENY"
