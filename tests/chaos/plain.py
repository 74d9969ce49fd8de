"""Plain terraform, for comparison: the same modules, with the local or the http backend, resumed by running `apply` again."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cloud import REGION, FakeDaemon
from drivers import Driver, Work

REPO = Path(__file__).resolve().parents[2]
# What capt writes into the provider block for the local AWS (`capt render`), as far as the modules need it.
SERVICES = ("ec2", "eks", "iam", "kms", "logs", "sts")
MIRRORS = ("/opt", "/usr/share", "/usr/local/share", "/var/lib")


def provider_mirror() -> Path | None:
    """The directory of the providers, if there is one; else terraform asks the registry."""
    if named := os.environ.get("CAPT_PROVIDER_MIRROR"):
        return Path(named)
    for place in MIRRORS:
        for depth in ("registry.terraform.io", "*/registry.terraform.io", "*/*/registry.terraform.io"):
            for found in Path(place).glob(depth):
                return found.parent
    return None


class PlainDriver(Driver):
    """Terraform with the local backend."""

    patience = 3
    backend = 'terraform {\n  backend "local" {}\n}\n'

    def attach(self, daemon: FakeDaemon) -> None:
        super().attach(daemon)
        self.work = self.data / "work"
        assert self.configuration.module is not None, "templates are capt's own"
        shutil.copytree(REPO / "terraform/modules" / self.configuration.module, self.work, ignore=shutil.ignore_patterns("tests"))
        (self.work / "chaos_backend.tf").write_text(self.backend)
        provider: dict[str, Any] = {
            "region": REGION, "access_key": "test", "secret_key": "test", "skip_credentials_validation": True,
            "skip_metadata_api_check": "true", "skip_region_validation": True,
            "endpoints": [dict.fromkeys(SERVICES, daemon.endpoint)],
        }
        (self.work / "chaos_provider.tf.json").write_text(json.dumps({"provider": {"aws": provider}}))
        self._cli = self.root / "cli.tfrc"
        mirror = provider_mirror()
        self._cli.write_text("" if mirror is None else
                             f'provider_installation {{\n  filesystem_mirror {{\n    path = "{mirror}"\n  }}\n}}\n')
        initialised = self.terraform("init", "-no-color", "-input=false").wait(300)
        if not initialised.ok:
            raise RuntimeError(f"terraform init failed: {initialised.output[-500:]}")

    def terraform(self, *arguments: str) -> Work:
        environment = {"TF_CLI_CONFIG_FILE": str(self._cli), "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"}
        return self.run(["terraform", *arguments], self.work, environment)

    def start(self, operation: str) -> Work:
        wanted = "create" if operation == "delete" else operation
        inputs = self.configuration.inputs(self.seed, wanted)
        (self.work / "terraform.tfvars.json").write_text(json.dumps(inputs))
        verb = "destroy" if operation == "delete" else "apply"
        return self.terraform(verb, "-no-color", "-input=false", "-auto-approve")

    def changes_planned(self, operation: str) -> str | None:
        outcome = self.terraform("plan", "-no-color", "-input=false", "-detailed-exitcode").wait(120)
        return None if outcome.ok else outcome.output[-400:]


class HttpBackendDriver(PlainDriver):
    """Terraform with the http backend and its lock, which stands for all backends over a network."""

    def attach(self, daemon: FakeDaemon) -> None:
        place = self.data / "http"
        place.mkdir()
        self.store = StateStore(place / "terraform.tfstate")
        address = f"{self.store.endpoint}/state"
        self.backend = (f'terraform {{\n  backend "http" {{\n    address        = "{address}"\n    lock_address   = "{address}"\n'
                        f'    unlock_address = "{address}"\n  }}\n}}\n')
        super().attach(daemon)

    def recover(self) -> None:
        """A person removes the lock of the dead terraform."""
        if not self.store.lock:
            return
        lock = json.loads(self.store.lock)["ID"]
        if re.fullmatch(r"[0-9a-f-]+", lock) and self.terraform("force-unlock", "-force", lock).wait(60).ok:
            self.unlocked_by_hand = True


class StateStore:
    """The server of the http backend: one state and one lock."""

    def __init__(self, file: Path) -> None:
        self.file, self.lock = file, b""
        store = self

        class Handler(_StateHandler):
            owner = store

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()


class _StateHandler(BaseHTTPRequestHandler):
    owner: StateStore

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_GET(self) -> None:
        if self.owner.file.exists():
            self._answer(200, self.owner.file.read_bytes())
        else:
            self._answer(404)

    def do_POST(self) -> None:
        fresh = self.owner.file.with_suffix(".new")
        fresh.write_bytes(self._body())
        fresh.replace(self.owner.file)
        self._answer(200)

    def do_LOCK(self) -> None:
        body = self._body()
        if self.owner.lock:
            self._answer(423, self.owner.lock)
            return
        self.owner.lock = body
        self._answer(200)

    def do_UNLOCK(self) -> None:
        self._body()
        self.owner.lock = b""
        self._answer(200)

    def log_message(self, *_: object) -> None:
        pass
