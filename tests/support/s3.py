"""S3 servers for tests: moto's, which keeps objects, and one that answers as it is told to."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import urlopen

from tests.support.eventually import eventually
from tests.support.ports import free_port

#: Credentials that any server of these takes.
LOGIN = {"aws_access_key_id": "tests", "aws_secret_access_key": "tests"}
REGION = "eu-west-1"


@contextmanager
def moto_server() -> Iterator[str]:
    """Runs moto's server on a free port; gives its address."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert server.poll() is None, "moto's server did not start"
        with suppress(OSError), urlopen(f"{url}/moto-api/", timeout=5):
            return True
        return False

    try:
        eventually(answers, f"moto's server on port {port}")
        yield url
    finally:
        server.terminate()
        server.wait()


def s3_client(url: str) -> Any:
    """A client of the test's own."""
    import boto3

    return boto3.client("s3", endpoint_url=url, region_name=REGION, **LOGIN)


@dataclass
class Answer:
    """One answer of a server that is told what to say.

    :ivar code: S3's word for an error, in a body as S3 sends it
    :ivar missing: so many bytes fewer are sent than announced
    """

    status: int = 200
    code: str = ""
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    missing: int = 0

    def content(self) -> bytes:
        if not self.code:
            return self.body
        return f"<Error><Code>{self.code}</Code><Message>told to</Message></Error>".encode()


class TellingServer:
    """Answers each request with the next answer, and for ever with the last."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = deque(answers)
        #: the headers of each request, names in lower case
        self.requests: list[dict[str, str]] = []
        told = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                told._answer(self)

            do_HEAD = do_PUT = do_DELETE = do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        self.requests.append({name.lower(): value for name, value in request.headers.items()})
        request.rfile.read(int(request.headers.get("Content-Length", 0)))
        answer = self._answers[0] if len(self._answers) == 1 else self._answers.popleft()
        content = answer.content()
        request.send_response(answer.status)
        for name, value in answer.headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(content) + answer.missing))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(content)
        request.close_connection = True
