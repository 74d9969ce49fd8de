"""How the work of a trial is started, resumed and checked: with the command line, with the operator, or with plain terraform."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from cloud import FakeDaemon
from configurations import Configuration, write_manifest
from processes import kill_role

Seed = "tuple[str, list[str]] | None"


@dataclass
class Outcome:
    """How a command ended; code None: it did not within its time."""

    code: int | None
    output: str

    @property
    def ok(self) -> bool:
        return self.code == 0


@dataclass
class Work:
    """A command that is running."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait(self, seconds: float) -> Outcome:
        try:
            code: int | None = self.process.wait(max(seconds, 0.1))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = None
        return Outcome(code, self.log.read_text(errors="replace"))


class Driver:
    """The command line of capt."""

    # Commands that must fail alike before it counts as 'a person has to do something'.
    patience = 3

    def __init__(self, capt: Path, root: Path, configuration: Configuration, seed: tuple[str, list[str]] | None) -> None:
        self.capt, self.root, self.configuration, self.seed = capt, root, configuration, seed
        self.data = root / "data"
        self._commands = 0
        self.unlocked_by_hand = False

    def attach(self, daemon: FakeDaemon) -> None:
        self.daemon = daemon

    def manifest(self, operation: str) -> Path:
        # A deletion names what was created.
        wanted = "create" if operation == "delete" else operation
        return write_manifest(self.root / f"{wanted}.yaml", self.configuration, self.seed, wanted)

    def arguments(self, operation: str) -> list[str]:
        verb = "destroy" if operation == "delete" else "apply"
        return [str(self.capt), verb, str(self.manifest(operation)), "--data", str(self.data), "--yes"]

    def run(self, arguments: list[str], directory: Path | None = None, environment: dict[str, str] | None = None) -> Work:
        self._commands += 1
        log = self.root / f"{self._commands:02}.log"
        log.write_text("$ " + " ".join(arguments) + "\n")
        with log.open("ab") as sink:
            process = subprocess.Popen(arguments, cwd=directory or self.root, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
                                       start_new_session=True, env={**os.environ, **(environment or {})})
        return Work(process, log)

    def start(self, operation: str) -> Work:
        self.daemon.ensure()
        return self.run(self.arguments(operation))

    def recover(self) -> None:
        """What happens before the command is repeated; a person does nothing here."""

    def changes_planned(self, operation: str) -> str | None:
        """What the next plan would change, or None."""
        self.daemon.ensure()
        file = self.manifest(operation)
        outcome = self.run([str(self.capt), "plan", str(file), "--data", str(self.data), "-o", "json"]).wait(120)
        try:
            document = json.loads(outcome.output[outcome.output.index("\n{") :])
        except ValueError:
            return outcome.output[-600:]
        results = [f"{w['name']}: {w['result']}" for w in document["workspaces"] if w["result"] != "unchanged"]
        return "; ".join(results) or None


class OperatorDriver(Driver):
    """`capt up`: embedded Kubernetes API and operator in a background process, which goes on by itself."""

    patience = 2

    def arguments(self, operation: str) -> list[str]:
        if operation == "delete":
            return [str(self.capt), "down", "--data", str(self.data)]
        return [str(self.capt), "up", "-f", str(self.manifest(operation)), "--data", str(self.data), "--timeout", "100s"]

    def recover(self) -> None:
        time.sleep(1)  # between two looks at the operator

    def changes_planned(self, operation: str) -> str | None:
        # The operator holds the lock of the data directory; the gateway stays and answers the plan.
        kill_role(self.data, "operator")
        return super().changes_planned(operation)


def driver_of(mode: str) -> type[Driver]:
    if mode.startswith("plain"):
        from plain import HttpBackendDriver, PlainDriver

        return HttpBackendDriver if mode == "plain-http" else PlainDriver
    return OperatorDriver if mode == "operator" else Driver
