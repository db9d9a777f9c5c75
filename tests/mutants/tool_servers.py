"""Faults of the tools of external MCP servers."""

from tests.mutants.mutant import Mutant

LOST = ("tests/integration/test_tool_servers_that_are_lost.py",)
ONCE = ("tests/integration/test_tool_calls_are_made_once.py",)
STOPPED = ("tests/integration/test_programs_are_stopped.py",)
CONTENT = ("tests/unit/tools/mcp/test_content.py",)
IMAGES = ("tests/unit/tools/test_images.py",)
AUTHORIZED = ("tests/integration/test_tool_servers_with_oauth.py",)
"""The last needs PostgreSQL."""
STDIO = ("tests/unit/tools/mcp/test_stdio.py",)
HTTP = ("tests/unit/tools/mcp/test_http.py",)
STRANGE = ("tests/integration/test_strange_tools.py",)
LOGINS = ("tests/integration/test_logins_at_tool_servers.py",)
INSTRUCTIONS = ("tests/unit/executors/tools/test_instructions.py",)
DRAFTS = ("tests/unit/tools/test_modern_schema.py",)

TOOL_SERVERS = (
    Mutant(
        "a call that outlives its run opens a connection",
        "app/tools/mcp/connection.py",
        "                if self._closed:",
        "                if False:",
        ONCE,
    ),
    Mutant(
        "a lost connection ends the calls that use it",
        "app/tools/mcp/connection.py",
        "        if not self._calls:",
        "        if True:",
        ONCE,
    ),
    Mutant(
        "a call without an answer ends all others",
        "app/tools/mcp/http.py",
        "            delivery.record_failure(error)",
        "            raise",
        ONCE,
    ),
    Mutant(
        "the end of a session takes as long as the server wants",
        "app/tools/mcp/http.py",
        "return await self._deliver(request, options, within_s=CLOSE_S)",
        "return await super().send(request, **options)",
        HTTP,
    ),
    Mutant(
        "a program that reads nothing more keeps its connection",
        "app/tools/mcp/stdio.py",
        "with anyio.fail_after(write_s):",
        "with anyio.fail_after(None):",
        STDIO,
    ),
    Mutant(
        "the children of a program stay",
        "app/tools/mcp/stdio.py",
        "    await terminate_posix_process_tree(process, _EXIT_S)",
        "    process.returncode is None and await terminate_posix_process_tree(process, _EXIT_S)",
        STDIO,
    ),
    Mutant(
        "two processes use one refresh token",
        "app/tools/mcp/oauth/repository.py",
        ".where(_is_version(key, version), is_free)",
        ".where(_is_version(key, version))",
        LOGINS,
    ),
    Mutant(
        "a login that could not be saved is lost",
        "app/tools/mcp/oauth/service.py",
        "        self._unsaved[key] = StoredLogin(login, version)",
        "        self._unsaved = {key: StoredLogin(login, -1)}",
        LOGINS,
    ),
    Mutant(
        "a login takes the redirect of another address",
        "app/cli/mcp.py",
        "and state is not None and state == self._state",
        "and state is not None",
        AUTHORIZED,
    ),
    Mutant(
        "every interrupted call is made again",
        "app/tools/mcp/connection.py",
        "if not repeatable and not interrupted.refused:",
        "if False:",
        LOST,
    ),
    Mutant(
        "a call that was refused may have taken effect",
        "app/tools/mcp/http.py",
        "self.refused = not self._taken",
        "pass",
        ONCE,
    ),
    Mutant(
        "a lost connection stays lost",
        "app/tools/mcp/connection.py",
        "is None or _is_over(ready):",
        "is None:",
        LOST,
    ),
    Mutant(
        "every error with the code of a closed connection is one",
        "app/tools/mcp/connection.py",
        "error.error.code == CONNECTION_CLOSED and error.error.message.startswith(_OF_CONNECTION)",
        "error.error.code == CONNECTION_CLOSED",
        LOST,
    ),
    Mutant(
        "progress does not extend a call",
        "app/tools/runner.py",
        "        self._deadline.reschedule(min(next_timeout, self._latest))\n",
        "",
        LOST,
    ),
    Mutant(
        "progress extends a call without limit",
        "app/tools/runner.py",
        "self._deadline.reschedule(min(next_timeout, self._latest))",
        "self._deadline.reschedule(next_timeout)",
        LOST,
    ),
    Mutant(
        "an image with too many pixels reaches the model",
        "app/tools/mcp/content.py",
        "if not header.fits:",
        "if False:",
        CONTENT,
    ),
    Mutant(
        "an image in a data URL is shown again",
        "app/tools/mcp/content.py",
        "for encoded in _BASE64.finditer(text):",
        "for encoded in ():",
        CONTENT,
    ),
    Mutant(
        "what is missing of a result is not counted",
        "app/tools/mcp/content.py",
        "self._missing_bytes += len(text.encode()) - len(kept.encode())",
        "pass",
        CONTENT,
    ),
    Mutant(
        "an image may have any size",
        "app/tools/images.py",
        "0 < self.width <= MAX_PIXELS",
        "True",
        IMAGES,
    ),
    Mutant(
        "instructions end their own section",
        "app/executors/tools/instructions.py",
        '    text = _TAGS.sub("&lt;", text)\n',
        "",
        INSTRUCTIONS,
    ),
    Mutant(
        "a reference to nothing is usable",
        "app/tools/modern_schema.py",
        "    _require_references(modern, plain)\n",
        "",
        DRAFTS,
    ),
    Mutant(
        "a reference keeps the older name of its place",
        "app/tools/modern_schema.py",
        'schema["$ref"] = _renamed(reference, older)',
        'schema["$ref"] = reference',
        DRAFTS,
    ),
    Mutant(
        "a schema is usable in every dialect",
        "app/platform/json_schema/checker.py",
        'hashlib.sha256(b"%d %s" % (document.dialect, document.text))',
        "hashlib.sha256(document.text)",
        ("tests/unit/platform/json_schema/test_checker.py",),
    ),
    Mutant(
        "runs that connect at once refuse each other",
        "app/tools/mcp/tools.py",
        "owner=owner, max_waiting=None)",
        "owner=owner)",
        ("tests/integration/test_tool_servers_that_do_not_answer.py",),
    ),
    Mutant(
        "a server sends the secret anywhere",
        "app/tools/mcp/oauth/endpoints.py",
        '    if found.scheme != "https" and',
        "    if False and",
        AUTHORIZED,
    ),
    Mutant(
        "a cancellation interrupts the stopping of a program",
        "app/tools/mcp/stdio.py",
        "await run_to_completion(_stop(process, written))",
        "await _stop(process, written)",
        STOPPED,
    ),
    Mutant(
        "a run that is cancelled twice leaves its tool servers",
        "app/tools/mcp/servers.py",
        "await run_to_completion(self._close())",
        "await self._close()",
        STOPPED,
    ),
    Mutant(
        "the body of an error is read without end",
        "app/tools/mcp/http.py",
        "        if not response.is_success:",
        "        if False:",
        ("tests/integration/test_hostile_authorization.py",),
    ),
    Mutant(
        "a login is at any authorization server",
        "app/tools/mcp/oauth/login.py",
        "if issuer is not None and (metadata",
        "if False and (metadata",
        LOGINS,
    ),
    Mutant(
        "a run that is cancelled loses the refresh token",
        "app/tools/mcp/oauth/service.py",
        "await run_to_completion(self._renew(stored))",
        "await self._renew(stored)",
        LOGINS,
    ),
    Mutant(
        "a refused token is used again",
        "app/tools/mcp/oauth/token_source.py",
        "and now < self._until and self._token != refused",
        "and now < self._until",
        AUTHORIZED,
    ),
    Mutant(
        "a login is stored as it is",
        "app/tools/mcp/oauth/sealing.py",
        "return nonce + self._cipher",
        "return _LOGIN.dump_json(login) + nonce + self._cipher",
        AUTHORIZED,
    ),
    Mutant(
        "a tool that is not valid takes its server with it",
        "app/tools/mcp/filter.py",
        "[_plain(tool) for tool in tools if self._keep(tool)]",
        "[tool for tool in tools if self._keep(tool)]",
        STRANGE,
    ),
    Mutant(
        "the second of two tools counts",
        "app/tools/mcp/filter.py",
        " and name not in self._input_schemas:",
        ":",
        STRANGE,
    ),
    Mutant(
        "half a character makes a list unreadable",
        "app/platform/serialization/repaired_json.py",
        "    text = _HALVES.sub(_whole, text)\n",
        "",
        STRANGE,
    ),
    Mutant(
        "a login follows redirects",
        "app/tools/mcp/oauth/endpoints.py",
        'if "location" in response.headers:',
        "if False:",
        LOGINS,
    ),
    Mutant(
        "a login reads without end",
        "app/tools/mcp/oauth/endpoints.py",
        "            if size > _MAX_BYTES:",
        "            if False:",
        LOGINS,
    ),
    Mutant(
        "the address of another server can be pasted",
        "app/cli/mcp.py",
        'if not line.strip().startswith(f"{self.uri}?"):',
        "if False:",
        LOGINS,
    ),
)
