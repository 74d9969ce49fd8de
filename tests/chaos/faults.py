"""What strikes: a kill, a lost disk, a full disk, a frozen leader, or nothing but a lost answer."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path

from cells import Cell
from drivers import Driver
from processes import freeze, kill_role, thaw
from replicas import ReplicasDriver

# The lease of an operator lasts 15 s.
FROZEN = 25.0
DISK = 48 << 20


class Ballast:
    """A small disk of its own for the data directory. Needs a mount namespace: see `scripts/chaos`."""

    def __init__(self, data: Path) -> None:
        self._data, self._file = data, data / "ballast"
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "tmpfs", str(data)], check=True)

    def fill(self) -> None:
        with self._file.open("wb", buffering=0) as file:
            chunk = bytes(4096)
            try:
                while True:
                    file.write(chunk)
            except OSError:
                pass

    def release(self) -> None:
        """All that a person has to do: make room."""
        self._file.unlink(missing_ok=True)

    def close(self) -> None:
        subprocess.run(["umount", "-l", str(self._data)], check=False)


def lose_disk(data: Path) -> None:
    """What a pod without a volume loses: all but the Kubernetes API."""
    for name in ("workspaces", "gateway", "home"):
        shutil.rmtree(data / name, ignore_errors=True)


def freeze_leader(driver: ReplicasDriver) -> list[str]:
    """The leader stands still for longer than its lease, and goes on as if nothing had happened."""
    frozen = freeze(driver.first, "operator")
    threading.Timer(FROZEN, thaw, [frozen]).start()
    return [f"frozen:{p.pid}" for p in frozen]


def partition_leader(driver: ReplicasDriver) -> list[str]:
    """The leader cannot reach the API for longer than its lease."""
    driver.forwarder.cut()
    threading.Timer(FROZEN, driver.forwarder.heal).start()
    return ["connection of the leader"]


def restart_leader(driver: ReplicasDriver) -> list[str]:
    """The leader is killed, and a container runtime starts it again on its disk, before its lease has ended."""
    killed = kill_role(driver.first, "operator")
    driver.begin_first()
    return killed


def strike_of(cell: Cell, driver: Driver, ballast: Ballast | None) -> list[str]:
    """Strikes; returns what was struck."""
    if cell.victim == "answer-lost":
        return ["answer"]
    if cell.victim == "disk-full" and ballast is not None:
        ballast.fill()
        return ["disk"]
    if isinstance(driver, ReplicasDriver):
        return {"leader-frozen": freeze_leader, "leader-partitioned": partition_leader, "leader-restarted": restart_leader,
                "api-server": ReplicasDriver.restart_api, "pod+disk": ReplicasDriver.lose_pod}[cell.victim](driver)
    if cell.victim == "everything+disk":
        killed = kill_role(driver.data, "everything")
        lose_disk(driver.data)
        return killed
    return kill_role(driver.data, cell.victim)
