"""One trial: create, strike, resume, judge."""

from __future__ import annotations

import random
import re
import shutil
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aws_calls import CREATES
from cells import Cell
from cloud import Cloud, FakeDaemon
from configurations import CONFIGURATIONS, seed_of
from drivers import Outcome, Work, driver_of
from faults import Ballast, strike_of
from invariants import Evidence, judge
from processes import kill, processes_of
from proxy import Proxy, Trigger
from states import States, StateWatch

# Bounds of a hang, not of a promise: how long the work before the kill and the work after it may take.
BEFORE_STRIKE, AFTER_STRIKE = 300.0, 300.0
# The lease of an operator, and what lets it end while its processes live.
LEASE, LEADERSHIP_ENDS = 15.0, ("leader-frozen", "leader-partitioned")
# The product says that somebody has to decide, approve, remove or look.
ASKS = re.compile(
    r"--approve|capt approve|by hand|waits? for approval|already exists|AlreadyExists|Conflict|force-unlock|delete it|remove")


@dataclass
class Result:
    """One line of the results."""

    cell: str
    seed: int
    violations: list[tuple[str, str]] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)
    reached: bool = False
    resume: float | None = None  # seconds from the strike until everything is finished
    attempts: int = 0
    error: str = ""
    directory: str = ""
    seconds: float = 0.0

    @property
    def bad(self) -> bool:
        return bool(self.violations) or not self.reached or bool(self.error)


class Trial:
    """The parts of a trial, and the steps that use them."""

    def __init__(self, capt: Path, cell: Cell, seed: int, root: Path) -> None:
        self.cell, self.root = cell, root
        self.random = random.Random(f"{cell}#{seed}")
        self.result = Result(str(cell), seed, directory=str(root))
        self.evidence = Evidence(cell.operation)
        configuration = CONFIGURATIONS[cell.configuration]
        self.cloud = Cloud(capt, root / "aws")
        self.proxy = Proxy(self.cloud.port, seed)
        self.driver = driver_of(cell.mode)(capt, root, configuration, seed_of(configuration, self.cloud))
        self.driver.data.mkdir()
        self.ballast = Ballast(self.driver.data) if cell.victim == "disk-full" else None
        self.daemon = FakeDaemon(self.driver.data, self.cloud, self.proxy.endpoint)
        self.driver.attach(self.daemon)
        self.watch = StateWatch(self.states)
        self.struck = threading.Event()
        self.struck_at = 0.0

    def states(self) -> States:
        return self.driver.states()

    def close(self) -> None:
        self.watch.close()
        for _ in range(3):
            kill(processes_of(self.driver.data))
        self.driver.close()
        self.daemon.close()
        self.proxy.close()
        self.cloud.close()
        if self.ballast is not None:
            self.ballast.close()

    # --- steps ------------------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """An update or a deletion needs something that exists."""
        if self.cell.operation != "create":
            outcome = self.driver.start("create").wait(BEFORE_STRIKE)
            if not outcome.ok:
                raise RuntimeError(f"the undisturbed creation failed: {outcome.output[-500:]}")
        self.evidence.cloud_before = self.cloud.objects() if self.cell.operation != "create" else set()
        self.proxy.calls.clear()

    def strike(self) -> None:
        """Called by the proxy at the moment of the cell."""
        self.result.struck = strike_of(self.cell, self.driver, self.ballast)
        self.struck_at = time.monotonic()
        self.evidence.states_at_strike = self.watch.now()
        self.struck.set()

    def strike_when_written(self) -> None:
        """Waits in the background until one more object of the kind is in a state, and strikes then."""
        kind = CREATES.get(self.cell.call)
        known = sum(thing.kind == kind for thing in self.watch.now().things)

        def wait() -> None:
            end = time.monotonic() + 60
            while time.monotonic() < end and sum(thing.kind == kind for thing in self.states().things) <= known:
                time.sleep(0.003)
            self.strike()

        threading.Thread(target=wait, daemon=True).start()

    def arm(self) -> None:
        cell, linger = self.cell, self.random.uniform(1.0, 4.0)
        if cell.victim in LEADERSHIP_ENDS and self.random.random() < 0.5:
            # A call may last longer than a lease: what its caller does after that is what a former leader does.
            linger += LEASE
        self.proxy.trigger = Trigger(cell.call, cell.nth, cell.moment, self.strike, self.strike_when_written, linger=linger,
                                     orphan_linger=self.random.uniform(0.05, 0.4))

    def wait_for_strike(self, work: Work) -> Outcome | None:
        """The strike, or the end of a command that never made the call."""
        end = time.monotonic() + BEFORE_STRIKE
        while not self.struck.is_set():
            if work.process.poll() is not None and not self.struck.wait(3):
                return work.wait(0.1)
            if time.monotonic() > end:
                return work.wait(0.1)
            self.struck.wait(0.1)
        return None

    def finish(self, work: Work, end: float) -> Outcome:
        """The end of a command, and of what goes on without it."""
        outcome = self.driver.finished(work, end, self.cell.operation)
        outcome = self.driver.settle(outcome, self.cell.operation, end)
        if not outcome.ok:
            self.evidence.failures.append(_last_words(outcome.output))
        return outcome

    def resume(self, work: Work) -> None:
        """The command that was running, then the same command again, until it succeeds or fails too often."""
        end = self.struck_at + AFTER_STRIKE
        outcome = self.finish(work, end)
        while not outcome.ok and time.monotonic() < end and self.result.attempts < self.driver.patience:
            self.result.attempts += 1
            if self.ballast is not None:
                self.ballast.release()
            self.driver.recover()
            outcome = self.finish(self.driver.start(self.cell.operation), end)
        self.evidence.resumed = outcome.ok
        self.evidence.asked_for_help = bool(ASKS.search("\n".join(self.evidence.failures[-1:])))
        self.evidence.unlocked_by_hand = self.driver.unlocked_by_hand
        if outcome.ok:
            self.result.resume = round(time.monotonic() - self.struck_at, 1)

    def collect(self) -> None:
        self.proxy.wait_idle(30)
        if self.evidence.resumed and self.cell.operation != "delete":
            self.evidence.changes_planned = self.driver.changes_planned(self.cell.operation)
        self.evidence.cloud_after = self.cloud.objects()
        self.evidence.states_after = self.states()
        self.evidence.calls = list(self.proxy.calls)
        self.result.violations = [(v.verdict, v.what) for v in judge(self.evidence)]

    def run(self) -> None:
        self.prepare()
        self.arm()
        work = self.driver.start(self.cell.operation)
        ended = self.wait_for_strike(work)
        if ended is not None:
            self.result.error = f"{self.cell.call} was never made; the command said: {_last_words(ended.output)}"
            return
        self.result.reached = bool(self.result.struck)
        if not self.result.reached:
            self.result.error = f"no process of {self.cell.victim} was running"
        self.resume(work)
        self.collect()


def _last_words(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("✗", "error", "Error", "│ Error"))]
    return (told or lines or [""])[-1][:600]


def run_trial(capt: Path, cell: Cell, seed: int, root: Path, keep: bool) -> Result:
    """Runs one trial in an empty directory of its own, which stays if the trial is bad."""
    begun = time.monotonic()
    trial: Trial | None = None
    try:
        trial = Trial(capt, cell, seed, root)
        result = trial.result
        trial.run()
    except Exception as error:  # a trial that cannot be judged is reported, and the next one runs
        result = trial.result if trial else Result(str(cell), seed, directory=str(root))
        result.error = f"{type(error).__name__}: {error}"
    finally:
        if trial is not None:
            trial.close()
    result.seconds = round(time.monotonic() - begun, 1)
    if not keep and not result.bad:
        shutil.rmtree(root, ignore_errors=True)
        result.directory = ""
    return result


def as_line(result: Result) -> dict[str, Any]:
    return {**vars(result), "bad": result.bad}
