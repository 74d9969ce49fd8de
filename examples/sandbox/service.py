#!/usr/bin/env python3
"""One service of the shop: prints its name, and calls the next service.

It passes `baggage` on. That is all that a service has to do for sandboxes, and most tracers do it already.
"""

import os
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME = sys.argv[1]
CALLS = [name for name in os.environ.get("CALLS", "").split(",") if name]


def ask(name: str, baggage: str | None) -> str:
    # The Service environment variables that Kubernetes sets in every pod.
    host, port = (os.environ[f"{name.upper()}_SERVICE_{part}"] for part in ("HOST", "PORT"))
    request = urllib.request.Request(f"http://{host}:{port}/", headers={"baggage": baggage} if baggage else {})
    with urllib.request.urlopen(request, timeout=5) as answer:
        return answer.read().decode()


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        lines = [f"{NAME} is {os.environ.get('IMAGE', 'nameless')}\n"]
        lines += [ask(name, self.headers.get("baggage")) for name in CALLS]
        body = "".join(lines).encode()
        self.send_response(200)
        self.send_header("content-type", "text/plain")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    address = os.environ.get("LOOPBACK", "127.0.0.1"), int(os.environ.get("PORT", "8080"))
    ThreadingHTTPServer(address, Service).serve_forever()
