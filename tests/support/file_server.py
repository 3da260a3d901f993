"""A server of files on this machine that breaks connections when it is told to, and remembers what it was asked."""

import contextlib
import http.server
import multiprocessing
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from time_parts import run_together


class FileServer(http.server.ThreadingHTTPServer):
    """Serves `files` by path.

    Attributes:
        files: Content by path.
        tag: ETag of everything; None for none.
        breaks_after: Bytes of a body after which each of the next connections breaks.
        refuses: Status that each of the next requests is answered by, in place of a file.
        asked: (path, Range header) of every request.
        pause: Seconds before an answer.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.tag: str | None = '"1"'
        self.breaks_after: list[int] = []
        self.refuses: list[int] = []
        self.asked: list[tuple[str, str | None]] = []
        self.pause = 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers["Range"]
        server.asked.append((self.path, wanted))
        time.sleep(server.pause)
        if server.refuses:
            self.send_error(server.refuses.pop(0))
            return
        content = server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = 0
        if wanted and (self.headers["If-Range"] in (None, server.tag)):
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if server.tag:
            self.send_header("ETag", server.tag)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        body = content[start:]
        self.wfile.write(body[: server.breaks_after.pop(0)] if server.breaks_after else body)

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


def end_well_side_by_side(function: Callable[..., Any], *arguments: Any) -> None:
    """Check that two processes that call a function at once end without an error."""
    both = [multiprocessing.get_context("fork").Process(target=function, args=arguments) for _ in range(2)]
    run_together(both)
    assert [process.exitcode for process in both] == [0, 0]


@contextlib.contextmanager
def served() -> Iterator[FileServer]:
    """A running server."""
    with FileServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
