"""A proxy between the AWS provider and the local AWS. It records every call that could change something, and it can stop the
nth call of an operation at an exact moment, so that a trial does not depend on luck.

The moments of a call, in the order in which they happen:

  before     the provider has sent it, AWS has not seen it: if the caller dies, it never happens
  in-flight  AWS has accepted it and is still at it: it happens, whoever dies
  after      AWS has done it, the answer is on its way to the provider
  answered   the provider has the answer; gateway, terraform and state do not
  written    terraform has written the result into its state
"""

from __future__ import annotations

import http.client
import random
import select
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Callable

from aws_calls import changes, created_object, operation_of

MOMENTS = ("before", "in-flight", "after", "answered", "written")
HOP_HEADERS = {"connection", "keep-alive", "transfer-encoding", "proxy-connection", "content-length"}


@dataclass
class Call:
    """One call that could change something."""

    operation: str
    at: float
    status: int = 0  # what AWS answered; 0: it has not (yet) been sent
    answered: bool = False
    created: str = ""  # the id in the answer

    @property
    def done(self) -> bool:
        return 200 <= self.status < 300


@dataclass
class Trigger:
    """Stops the nth call of an operation and lets `strike` act at the chosen moment."""

    operation: str
    nth: int
    moment: str
    strike: Callable[[], None]
    written: Callable[[], None]
    # How much longer AWS takes: with the caller alive, and after its death. The second is short, because what AWS has accepted
    # from a dead process is done within moments, while the caller that lives may wait for minutes.
    linger: float = 2.0
    orphan_linger: float = 0.2
    seen: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def hits(self, operation: str) -> bool:
        if operation != self.operation:
            return False
        with self.lock:
            self.seen += 1
            return self.seen == self.nth


class Proxy:
    """The proxy of one trial."""

    def __init__(self, upstream_port: int, seed: int) -> None:
        self.upstream_port = upstream_port
        self.calls: list[Call] = []
        self.busy = 0
        self.trigger: Trigger | None = None
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def begin(self, operation: str) -> Call:
        call = Call(operation, time.monotonic())
        with self._lock:
            self.calls.append(call)
            self.busy += 1
        return call

    def end(self) -> None:
        with self._lock:
            self.busy -= 1

    def latency(self) -> float:
        with self._lock:
            return self._random.uniform(0.02, 0.12)

    def wait_idle(self, seconds: float) -> bool:
        """Waits until no call is held or under way."""
        end = time.monotonic() + seconds
        while self.busy and time.monotonic() < end:
            time.sleep(0.05)
        return not self.busy

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: Proxy

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        operation = operation_of(self.command, self.path, self.headers.get("X-Amz-Target"), body)
        if self.path.startswith("/_capt/") or not changes(operation):
            self._reply(*self._forward(body))
            return
        call = self.owner.begin(operation)
        try:
            self._serve_change(call, body)
        finally:
            self.owner.end()

    def _serve_change(self, call: Call, body: bytes) -> None:
        time.sleep(self.owner.latency())
        trigger = self.owner.trigger
        if trigger is None or not trigger.hits(call.operation):
            answer = self._forward(body)
            call.status, call.created = answer[0], created_object(call.operation, answer[2])
            self._reply(*answer)
            call.answered = True
            return
        self._serve_hit(call, body, trigger)

    def _serve_hit(self, call: Call, body: bytes, trigger: Trigger) -> None:
        if trigger.moment in ("before", "in-flight"):
            trigger.strike()
            alive = self._caller_lives()
            if trigger.moment == "before" and not alive:
                self.close_connection = True
                return
            time.sleep(trigger.linger if alive else trigger.orphan_linger)
        answer = self._forward(body)
        call.status, call.created = answer[0], created_object(call.operation, answer[2])
        if trigger.moment == "lost":
            trigger.strike()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if trigger.moment == "after":
            trigger.strike()
            time.sleep(trigger.linger if self._caller_lives() else 0)
        if trigger.moment == "written":
            trigger.written()
        self._reply(*answer)
        call.answered = True
        if trigger.moment == "answered":
            trigger.strike()

    def _caller_lives(self) -> bool:
        """Whether the provider still has its end of the connection open; one that dies with its parent gets a moment."""
        readable, _, _ = select.select([self.connection], [], [], 0.3)
        try:
            return not readable or self.connection.recv(1, socket.MSG_PEEK) != b""
        except OSError:
            return False

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection("127.0.0.1", self.owner.upstream_port, timeout=60)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_HEADERS}
            headers["Content-Length"] = str(len(body))
            upstream.request(self.command, self.path, body=body, headers=headers)
            response = upstream.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            upstream.close()

    def _reply(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        try:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in HOP_HEADERS:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the caller is dead

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = _serve

    def log_message(self, *_: object) -> None:
        pass
