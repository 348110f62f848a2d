"""Serve repositories to git over HTTP with `git http-backend`."""

from __future__ import annotations

import os
import subprocess
from http.server import BaseHTTPRequestHandler
from pathlib import Path


def body(request: BaseHTTPRequestHandler) -> bytes:
    """Return the body of a request, which git may send in chunks."""
    if request.headers.get("Transfer-Encoding") != "chunked":
        return request.rfile.read(int(request.headers["Content-Length"]))
    content = b""
    while size := int(request.rfile.readline(), 16):
        content += request.rfile.read(size)
        request.rfile.readline()
    request.rfile.readline()
    return content


def answer(request: BaseHTTPRequestHandler, folder: Path, content: bytes) -> None:
    """Answer git's request for a bare repository in the folder."""
    path, _, query = request.path.partition("?")
    variables = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": str(folder),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "REQUEST_METHOD": request.command,
        "REMOTE_USER": "git",
        "CONTENT_TYPE": request.headers.get("Content-Type", ""),
        "CONTENT_LENGTH": str(len(content)),
        "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
        "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
    }
    command = ["git", "http-backend"]
    done = subprocess.run(command, env=variables, input=content, capture_output=True, check=False)
    head, _, rest = done.stdout.partition(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
    request.send_response(int(fields.pop("Status", "200").split()[0]))
    for name, value in {**fields, "Content-Length": str(len(rest))}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(rest)
