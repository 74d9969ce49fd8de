"""What strikes: a kill, a lost disk, a full disk, a frozen leader, or nothing but a lost answer."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path

from cells import Cell
from processes import freeze, kill_role, thaw

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


def freeze_operator(data: Path) -> list[str]:
    frozen = freeze(data, "operator")
    threading.Timer(FROZEN, thaw, [frozen]).start()
    return [f"frozen:{p.pid}" for p in frozen]


def strike_of(cell: Cell, data: Path, ballast: Ballast | None) -> list[str]:
    """Strikes; returns what was struck."""
    if cell.victim == "answer-lost":
        return ["answer"]
    if cell.victim == "disk-full" and ballast is not None:
        ballast.fill()
        return ["disk"]
    if cell.victim == "leader-frozen":
        return freeze_operator(data)
    if cell.victim == "everything+disk":
        killed = kill_role(data, "everything")
        lose_disk(data)
        return killed
    return kill_role(data, cell.victim)
