"""How the work of a trial is started, resumed and checked: with the command line, with the operator, or with plain terraform."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from cloud import FakeDaemon
from configurations import Configuration, write_manifest
from processes import kill_role, processes_of
from states import States, read_states


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

    def states(self) -> States:
        return read_states(self.data)

    def finished(self, work: Work, end: float, operation: str) -> Outcome:
        """The end of a command."""
        return work.wait(end - time.monotonic())

    def settle(self, outcome: Outcome, operation: str, end: float) -> Outcome:
        """Waits for what goes on without the command; the command line has nothing of the kind."""
        return outcome

    def close(self) -> None:
        """Ends what the driver started besides the processes of the data directory."""

    def changes_planned(self, operation: str) -> str | None:
        """What the next plan would change, or None."""
        return self.plan_of(self.data, operation)

    def plan_of(self, data: Path, operation: str) -> str | None:
        self.daemon.ensure()
        file = self.manifest(operation)
        outcome = self.run([str(self.capt), "plan", str(file), "--data", str(data), "-o", "json"]).wait(120)
        try:
            document = json.loads(outcome.output[outcome.output.index("\n{") :])
        except ValueError:
            return outcome.output[-600:]
        results = [f"{w['name']}: {w['result']}" for w in document["workspaces"] if w["result"] != "unchanged"]
        return "; ".join(results) or None


class KubernetesDriver(Driver):
    """What is common to all ways in which an operator does the work."""

    kubeconfig: Path

    def kubectl(self, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        command = ["kubectl", "--kubeconfig", str(self.kubeconfig), "--request-timeout", "20s", *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, check=False)

    def operator_lives(self) -> bool:
        return any(p.role == "operator" for p in processes_of(self.data))

    def settle(self, outcome: Outcome, operation: str, end: float) -> Outcome:
        """Waits until the operator has done what the object says, or does not mean to try again soon."""
        if operation == "delete":
            return outcome
        said = "no end in sight"
        while time.monotonic() < end:
            if not self.operator_lives():
                said = "the operator does not run"
                break
            read = self.kubectl("get", "wtapply", "chaos", "-o", "json")
            if read.returncode == 0:
                done, said = _progress(json.loads(read.stdout))
                if done is not None:
                    return Outcome(0 if done else 1, said)
            time.sleep(0.5)
        return Outcome(None if time.monotonic() >= end else 1, f"{outcome.output}\n✗ {said}")


def _progress(workspace: dict[str, Any]) -> tuple[bool | None, str]:
    """Whether an object is done (True), has given up for minutes (False), or is being worked on (None), and what it says."""
    status, generation = workspace.get("status", {}), workspace["metadata"]["generation"]
    holds = {c["type"]: c["status"] == "True" and c.get("observedGeneration") == generation for c in status.get("conditions", [])}
    said = "; ".join(f"{c['type']} {c['status']}: {c['message']}" for c in status.get("conditions", []) if c.get("message"))
    if holds.get("Ready") and holds.get("Synced") and not status.get("lastError"):
        return True, said
    error = status.get("lastError") or {}
    later = datetime.fromisoformat(error["retryAt"].replace("Z", "+00:00")).timestamp() - time.time() if error.get("retryAt") else 0
    if later > 100 or holds.get("DestructiveChangeBlocked"):
        return False, f"✗ {error.get('message') or said} (next attempt in {later:.0f} s)"
    return None, said


class OperatorDriver(KubernetesDriver):
    """`capt up`: embedded Kubernetes API and operator in a background process, which goes on by itself."""

    patience = 2

    def attach(self, daemon: FakeDaemon) -> None:
        super().attach(daemon)
        self.kubeconfig = self.data / "kube/kubeconfig"

    def arguments(self, operation: str) -> list[str]:
        if operation == "delete":
            return [str(self.capt), "down", "--data", str(self.data)]
        return [str(self.capt), "up", "-f", str(self.manifest(operation)), "--data", str(self.data), "--timeout", "240s"]

    def finished(self, work: Work, end: float, operation: str) -> Outcome:
        """`up` waits for as long as it may; `settle` sees earlier that the operator means to try again only after minutes."""
        if operation == "delete":
            return super().finished(work, end, operation)
        while work.process.poll() is None and not self.operator_lives() and time.monotonic() < end:
            time.sleep(0.2)
        return Outcome(work.process.poll(), work.log.read_text(errors="replace"))

    def changes_planned(self, operation: str) -> str | None:
        # The operator holds the lock of the data directory; the gateway stays and answers the plan.
        kill_role(self.data, "operator")
        return super().changes_planned(operation)


def driver_of(mode: str) -> type[Driver]:
    if mode.startswith("plain"):
        from plain import HttpBackendDriver, PlainDriver

        return HttpBackendDriver if mode == "plain-http" else PlainDriver
    if mode == "replicas":
        from replicas import ReplicasDriver

        return ReplicasDriver
    return OperatorDriver if mode == "operator" else Driver
