"""The command line of `scripts/chaos`: chooses the trials, runs several at once, keeps the results, and gives the verdict."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import report
from cells import FAULTS, LEADERS, VICTIMS, Cell, in_order, parse_cell, plain_cells
from processes import kill, processes_of
from trial import as_line, run_trial

REPO = Path(__file__).resolve().parents[2]
ENTRY = REPO / "scripts/chaos"
SHORT = len(VICTIMS) + len(LEADERS) + len(FAULTS)
# A trial that takes longer than all its own bounds is a bug of the harness.
HUNG = 1500


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description="Kills capt at chosen moments and checks what is left.")
    parser.add_argument("-n", "--trials", type=int, default=int(os.environ.get("N") or SHORT))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED") or 1))
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("JOBS") or default_jobs()),
                        help="trials at the same time; they mostly wait")
    parser.add_argument("--seconds", type=float, default=None, help="start no more trials after this time; the next call goes on")
    parser.add_argument("--capt", type=Path, default=Path(os.environ.get("CAPT_BIN") or REPO / "target/debug/capt"))
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("CHAOS_DATA") or REPO / ".chaos"),
                        help="where results are kept (default .chaos)")
    parser.add_argument("--keep", action="store_true", help="keep the directories of good trials, too")
    parser.add_argument("--only", default="", help="only cells that contain this text")
    parser.add_argument("--replay", metavar="CELL")
    parser.add_argument("--one", metavar="CELL", help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--cells", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--baseline", nargs="?", const="local", choices=["local", "http"])
    arguments = parser.parse_args()
    arguments.capt = arguments.capt.resolve()
    return arguments


def default_jobs() -> int:
    """Two for each core, because trials mostly wait; each needs up to a gigabyte for terraform, provider and moto."""
    about = Path("/proc/meminfo").read_text()
    gigabytes = int(about.split("MemAvailable:")[1].split()[0]) >> 20
    return max(1, min(2 * (os.cpu_count() or 1), gigabytes))


def chosen_cells(arguments: argparse.Namespace) -> list[Cell]:
    if arguments.baseline:
        cells = plain_cells(arguments.seed, "plain" if arguments.baseline == "local" else "plain-http")
    else:
        cells = in_order(arguments.seed)
    return [cell for cell in cells if arguments.only in str(cell)]


def results_file(arguments: argparse.Namespace) -> Path:
    """One file for each seed, kind of sample, and binary: results of different binaries must not be mixed."""
    with arguments.capt.open("rb") as binary:
        digest = hashlib.file_digest(binary, "md5").hexdigest()[:8] if sys.version_info >= (3, 11) else _digest(binary)
    kind = f"plain-{arguments.baseline}" if arguments.baseline else digest
    only = "-" + hashlib.md5(arguments.only.encode()).hexdigest()[:6] if arguments.only else ""
    arguments.data.mkdir(parents=True, exist_ok=True)
    return Path(arguments.data / f"results-{kind}-{arguments.seed}{only}.jsonl")


def _digest(binary: Any) -> str:
    digest = hashlib.md5()
    while chunk := binary.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()[:8]


def trial_command(arguments: argparse.Namespace, cell: Cell, seed: int, directory: Path) -> list[str]:
    command = [sys.executable, str(ENTRY), "--one", str(cell), "--seed", str(seed), "--capt", str(arguments.capt),
               "--directory", str(directory)]
    if arguments.keep:
        command.append("--keep")
    if cell.victim == "disk-full":
        # A disk of its own needs a mount namespace; a user namespace gives the right to it.
        command = ["unshare", *([] if os.geteuid() == 0 else ["-Ur"]), "-m", "--propagation", "private", *command]
    return command


def run_one(arguments: argparse.Namespace, cell: Cell, seed: int) -> dict[str, Any]:
    """A trial in a process of its own, so that a hung one cannot stop the others."""
    directory = Path(tempfile.mkdtemp(prefix="chaos-"))
    process = subprocess.Popen(trial_command(arguments, cell, seed, directory), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = process.communicate(timeout=HUNG)
        return dict(json.loads(out.splitlines()[-1]))
    except (ValueError, IndexError):
        why = f"the trial gave no result: {err[-500:]}"
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        kill(processes_of(directory))
        why = f"the trial hung for {HUNG} s"
    return {"cell": str(cell), "seed": seed, "violations": [], "struck": [], "reached": False, "resume": None, "attempts": 0,
            "error": why, "directory": str(directory), "seconds": 0.0, "bad": True}


def run_trials(arguments: argparse.Namespace, cells: list[Cell], file: Path) -> list[dict[str, Any]]:
    lines = report.read_lines(file)[: arguments.trials]
    done = {line["index"] for line in lines}
    todo = [index for index in range(arguments.trials) if index not in done]
    if done:
        print(f"chaos: {len(done)} trials were done before ({file})", flush=True)
    begun = time.monotonic()

    def work(index: int) -> dict[str, Any] | None:
        if arguments.seconds is not None and time.monotonic() - begun > arguments.seconds:
            return None
        line = run_one(arguments, cells[index % len(cells)], arguments.seed * 100_000 + index)
        return {"index": index, **line}

    pool = ThreadPoolExecutor(arguments.jobs)
    with file.open("a") as sink:
        try:
            for future in as_completed([pool.submit(work, index) for index in todo]):
                if (line := future.result()) is not None:
                    sink.write(json.dumps(line) + "\n")
                    sink.flush()
                    lines.append(line)
                    print(one_line(line), flush=True)
        except KeyboardInterrupt:
            print("chaos: waiting for the trials that run; the same command continues with the others", flush=True)
        pool.shutdown(cancel_futures=True)
    return lines


def one_line(line: dict[str, Any]) -> str:
    return report.describe_failure(line) if line["bad"] else f"ok   {line['cell']}  resumed in {line['resume']} s"


def replay(arguments: argparse.Namespace) -> int:
    line = run_one(arguments, parse_cell(arguments.replay), arguments.seed)
    print(one_line(line))
    if line["directory"]:
        print(f"     outputs of the commands: {line['directory']}/*.log")
    return 1 if line["bad"] else 0


def missing_tools(arguments: argparse.Namespace) -> str | None:
    if not arguments.capt.exists():
        return f"{arguments.capt} is missing: `make build`, or name a binary with CAPT_BIN"
    return None if shutil.which("terraform") or not arguments.baseline else "terraform is missing"


def main() -> int:
    arguments = parse_arguments()
    if arguments.cells:
        print("\n".join(sorted(str(cell) for cell in chosen_cells(arguments))))
        return 0
    if why := missing_tools(arguments):
        print(f"error: {why}", file=sys.stderr)
        return 2
    if arguments.one:
        # Ends what the trial started, too.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        print(json.dumps(as_line(run_trial(arguments.capt, parse_cell(arguments.one), arguments.seed, arguments.directory,
                                           arguments.keep))))
        return 0
    if arguments.replay:
        return replay(arguments)
    cells, file = chosen_cells(arguments), results_file(arguments)
    if arguments.table:
        print(report.all_tables(report.read_lines(file)))
        return 0
    print(f"chaos: {arguments.trials} trials of {len(cells)} cells, seed {arguments.seed}, {arguments.jobs} at a time; "
          f"results in {file}", flush=True)
    lines = run_trials(arguments, cells, file)
    print("\n" + report.victims(lines))
    print(report.verdict(lines, arguments.seed))
    return 1 if any(line["bad"] for line in lines) else 0
