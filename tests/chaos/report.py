"""Results as text: one trial, the table by victim, and the verdict."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, Callable, Iterable

from cells import FAULTS, LEADERS, VICTIMS
from invariants import VERDICTS


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The results so far; a line that was cut by a kill of the harness is dropped."""
    if not file.exists():
        return []
    lines: dict[int, dict[str, Any]] = {}
    for text in file.read_text().splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        lines.setdefault(line["index"], line)
    return list(lines.values())


def percentile(values: list[float], share: float) -> str:
    if not values:
        return "–"
    ordered = sorted(values)
    return f"{ordered[min(len(ordered) - 1, int(share * len(ordered)))]:.1f}"


def counts(lines: Iterable[dict[str, Any]]) -> dict[str, int]:
    """In how many trials each promise was broken."""
    found = dict.fromkeys(VERDICTS, 0)
    for line in lines:
        for verdict in {verdict for verdict, _ in line["violations"]}:
            found[verdict] += 1
    return found


def resumes(lines: Iterable[dict[str, Any]]) -> list[float]:
    return [line["resume"] for line in lines if line["resume"] is not None]


def describe_failure(line: dict[str, Any]) -> str:
    """What a person needs to find the bug: what was struck, what broke, and how to see it again."""
    mode, configuration, operation, call, moment, victim = line["cell"].split("/")
    head = [f"BAD  {line['cell']}  seed {line['seed']}",
            f"     victim {victim} ({', '.join(line['struck']) or 'nobody'}), {moment}, {call} "
            f"({operation} of {configuration}, {mode})"]
    told = [f"     {verdict}: {what}" for verdict, what in line["violations"]]
    if line["error"]:
        told.append(f"     not judged: {line['error']}")
    again = f"scripts/chaos --replay {shlex.quote(line['cell'])} --seed {line['seed']} --keep"
    return "\n".join([*head, *told, f"     files: {line['directory']}", f"     again: {again}"])


def verdict(lines: list[dict[str, Any]], seed: int) -> str:
    """The last line of a run."""
    found, times = counts(lines), resumes(lines)
    bad = sum(line["bad"] for line in lines)
    numbers = ", ".join(f"{number} {name if name != 'manual' else 'manual steps'}" for name, number in found.items())
    errors = sum(bool(line["error"]) for line in lines)
    return (f"chaos: {'FAILED' if bad else 'ok'}: {len(lines)} trials, {bad} bad: {numbers}, {errors} not judged; "
            f"resume p50 {percentile(times, 0.5)} s, p95 {percentile(times, 0.95)} s; seed {seed}")


def table(lines: list[dict[str, Any]], key: Callable[[dict[str, Any]], str], first: str, order: Iterable[str] = ()) -> str:
    """A Markdown table of trials, grouped by a property."""
    head = [first, "trials", "bad", *(name if name != "manual" else "manual steps" for name in VERDICTS), "not judged",
            "resume p50 / p95 s"]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    groups: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault(key(line), []).append(line)
    known = [name for name in order if name in groups]
    for name in known + sorted(set(groups) - set(known)) + ["all"]:
        group = lines if name == "all" else groups[name]
        times = resumes(group)
        cells = [name, len(group), sum(x["bad"] for x in group), *counts(group).values(), sum(bool(x["error"]) for x in group),
                 f"{percentile(times, 0.5)} / {percentile(times, 0.95)}"]
        rows.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(rows)


def victims(lines: list[dict[str, Any]]) -> str:
    return table(lines, lambda line: line["cell"].split("/")[5], "victim", [*VICTIMS, *LEADERS, *FAULTS])


def all_tables(lines: list[dict[str, Any]]) -> str:
    part: Callable[[int], Callable[[dict[str, Any]], str]] = lambda n: lambda line: line["cell"].split("/")[n]
    return "\n\n".join([
        victims(lines),
        table(lines, part(4), "moment", ["before", "in-flight", "after", "answered", "written"]),
        table(lines, lambda line: line["cell"].split("/")[3].split(".")[0], "call"),
        table(lines, lambda line: "/".join(line["cell"].split("/")[0:3]), "mode/configuration/operation"),
    ])
