"""What real clients do on the wire: preflights, chunked and compressed bodies, WebSocket tries."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = Any
Respond = Callable[[str, dict[str, str], Json], tuple[int, str, str]]
"""Path without its query, headers with names in lower case, body; status, content type and text of the answer."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a client that was killed
            super().handle_error(request, client_address)


def handler(respond: Respond) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet an answer: a second one would wait for the client's delayed ACK
        disable_nagle_algorithm = True

        def do_HEAD(self) -> None:
            self._send(200, "text/plain", "")

        def do_GET(self) -> None:
            if self.headers.get("Upgrade"):
                self.close_connection = True
                self._send(426, *_error("this server speaks HTTP only: send the request by POST"))
            else:
                self._send(200, "application/json", json.dumps({"object": "list", "data": [_MODEL]}))

        def do_POST(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                body = json.loads(_decoded(self._read(), headers.get("content-encoding", "identity")))
            except _NotRead as error:
                self._send(415, *_error(str(error)))
            except (ValueError, EOFError, OSError, zlib.error) as error:
                self._send(400, *_error(f"the body can't be read: {error}"))
            else:
                self._send(*respond(self.path.partition("?")[0], headers, body))

        def _read(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            pieces = []
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():  # trailers
                pass
            return b"".join(pieces)

        def _send(self, status: int, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            self.wfile.flush()

        def log_message(self, *args: Any) -> None:
            pass

    return Handler


class _NotRead(Exception):
    pass


def _decoded(data: bytes, encoding: str) -> bytes:
    if encoding == "identity":
        return data
    if encoding == "gzip":
        return gzip.decompress(data)
    if encoding == "deflate":
        return zlib.decompress(data)
    raise _NotRead(f"content-encoding {encoding} is not read here")


_MODEL = {"id": "scripted", "object": "model", "type": "model", "created": 1, "owned_by": "packlight"}


def _error(message: str) -> tuple[str, str]:
    error = {"type": "invalid_request_error", "message": message}
    return "application/json", json.dumps({"type": "error", "error": error})
