"""The processes of one trial: found by its directory, named by their role, killed at the same instant."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

# The roles that each victim consists of.
VICTIMS = {
    "terraform": {"terraform"},
    "shim": {"shim"},
    "terraform+shim": {"terraform", "shim"},
    "provider": {"provider"},
    "gateway": {"gateway"},
    "operator": {"operator"},
    "everything": {"operator", "client", "shim", "terraform", "gateway", "provider", "other"},
}


@dataclass(frozen=True)
class Process:
    """One process, identified by pid and start time."""

    pid: int
    parent: int
    started: str
    state: str
    args: tuple[str, ...]
    directory: str

    @property
    def role(self) -> str:
        program = os.path.basename(self.args[0])
        verb = self.args[1] if len(self.args) > 1 else ""
        if program.startswith("terraform-provider"):
            return "provider"
        if program in ("terraform", "tofu"):
            return "terraform"
        if verb in ("shim", "gateway"):
            return verb
        # The command line is to its user what the operator is to a cluster.
        if verb in ("up-serve", "run", "apply", "destroy"):
            return "operator"
        return "client" if verb in ("up", "down", "status", "plan") else "other"


def read_process(pid: int) -> Process | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        args = tuple(Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").rstrip("\0").split("\0"))
        directory = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    if fields[0] == "Z":
        return None
    return Process(pid, int(fields[1]), fields[19], fields[0], args, directory)


def processes_of(data: Path) -> list[Process]:
    """Everything that works on a data directory: by argument or directory, and the children of these."""
    everyone = [found for pid in os.listdir("/proc") if pid.isdigit() and (found := read_process(int(pid)))]
    place = str(data)
    inside = {p.pid for p in everyone if p.directory.startswith(place) or any(place in arg for arg in p.args)}
    inside.discard(os.getpid())
    grown = True
    while grown:
        children = {p.pid for p in everyone if p.parent in inside and p.pid not in inside}
        inside |= children
        grown = bool(children)
    return [p for p in everyone if p.pid in inside]


def is_alive(process: Process) -> bool:
    now = read_process(process.pid)
    return now is not None and now.started == process.started


def _signal(processes: list[Process], number: int) -> None:
    for process in processes:
        if is_alive(process):
            try:
                os.kill(process.pid, number)
            except ProcessLookupError:
                pass


def kill(processes: list[Process]) -> None:
    """Kills all of them at one instant: first nobody can react any more, then all die."""
    _signal(processes, signal.SIGSTOP)
    _signal(processes, signal.SIGKILL)
    end = time.monotonic() + 10
    while any(is_alive(p) for p in processes) and time.monotonic() < end:
        time.sleep(0.002)


def kill_role(data: Path, victim: str) -> list[str]:
    """Kills a victim; returns what was killed."""
    chosen = [p for p in processes_of(data) if p.role in VICTIMS[victim]]
    kill(chosen)
    return [f"{p.role}:{p.pid}" for p in chosen]


def freeze(data: Path, victim: str) -> list[Process]:
    chosen = [p for p in processes_of(data) if p.role in VICTIMS[victim]]
    _signal(chosen, signal.SIGSTOP)
    return chosen


def thaw(processes: list[Process]) -> None:
    _signal(processes, signal.SIGCONT)
