"""S3 on loopback, which fails in the ways that object storages fail."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import boto3
from moto.backends import get_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BUCKET = "contents"
Fault: TypeAlias = Literal["unavailable", "damaged", "cut", "missing", "forbidden"]
_STATUS = {"unavailable": "503 Slow Down", "missing": "404 Not Found", "forbidden": "403 Forbidden"}


@dataclass
class LoopbackS3:
    """A bucket, and what happens to the next requests for contents."""

    url: str
    faults: deque[Fault] = field(default_factory=deque)
    """One for each request."""
    requests: list[str] = field(default_factory=list)
    """Their methods."""
    flows: threading.Event = field(default_factory=threading.Event)
    """Requests wait while it is not set."""

    def __post_init__(self) -> None:
        self.flows.set()

    @property
    def environment(self) -> dict[str, str]:
        """What leads clients to it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }

    def contents(self) -> dict[str, bytes]:
        """What is stored, by path."""
        client = _client(self.url)
        found = client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return {
            each["Key"]: client.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read() for each in found
        }

    def lose(self) -> None:
        """Delete everything."""
        client = _client(self.url)
        for path in self.contents():
            client.delete_object(Bucket=BUCKET, Key=path)

    def answer(self, app: Any, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer a request as the next fault says."""
        if environ["PATH_INFO"].count("/") < 3 or "boto" in environ.get("HTTP_USER_AGENT", "").lower():
            answered: Iterable[bytes] = app(environ, start_response)
            return answered
        self.requests.append(environ["REQUEST_METHOD"])
        self.flows.wait()
        fault = self.faults.popleft() if self.faults else None
        if fault in _STATUS:
            start_response(_STATUS[fault], [("Content-Type", "application/xml")])
            return [b"<Error><Code>Refused</Code></Error>"]
        body = b"".join(app(environ, start_response))
        if fault == "damaged":
            return [body[:-1] + b"!"]
        return [body[: len(body) // 2] if fault == "cut" else body]


@contextmanager
def loopback_s3() -> Iterator[LoopbackS3]:
    """An empty bucket while the body runs."""
    get_backend("s3").reset()
    app = DomainDispatcherApplication(create_backend_app)
    s3 = LoopbackS3("")
    server = make_server("127.0.0.1", 0, lambda *request: s3.answer(app, *request), threaded=True)
    s3.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        _client(s3.url).create_bucket(Bucket=BUCKET)
        yield s3
    finally:
        s3.flows.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _client(url: str) -> Any:
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys)
