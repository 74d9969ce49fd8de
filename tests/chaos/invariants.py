"""What must hold after every trial, whoever was killed at whatever moment.

Read it as the specification of 'kill any process at any instant'. Each function states one promise and returns how it was
broken. None of them knows how the product keeps the promise; all they see is the cloud, the states and the calls.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from aws_calls import CREATES, IDEMPOTENT
from cloud import Thing
from proxy import Call
from states import States

# What a change is meant to take away. Everything else that existed before has to survive it.
MEANT_TO_GO = {"shrink": {"addon", "access-entry", "access-policy", "fargate-profile"}}
# The columns of the verdict, in its order.
VERDICTS = ("lost", "duplicated", "replaced", "torn", "stuck", "manual", "unsettled")


@dataclass
class Evidence:
    """Everything that was observed of one trial."""

    operation: str
    cloud_before: set[Thing] = field(default_factory=set)
    states_at_strike: States = field(default_factory=States)
    cloud_after: set[Thing] = field(default_factory=set)
    states_after: States = field(default_factory=States)
    calls: list[Call] = field(default_factory=list)
    resumed: bool = False
    failures: list[str] = field(default_factory=list)  # what the commands that did not succeed said
    asked_for_help: bool = False
    unlocked_by_hand: bool = False
    changes_planned: str | None = None


@dataclass(frozen=True)
class Violation:
    """One broken promise: a verdict of the table, and what exactly."""

    verdict: str
    what: str


def the_cloud_is_the_union_of_the_states(e: Evidence) -> list[Violation]:
    """Every object in the cloud is in a state, and every object in a state is in the cloud."""
    known = e.states_after.things
    nobodys = [Violation("lost", f"{thing} exists and is in no state") for thing in e.cloud_after - known]
    return nobodys + [Violation("lost", f"{thing} is in a state and does not exist") for thing in known - e.cloud_after]


def each_object_was_created_once(e: Evidence) -> list[Violation]:
    """No more objects of a kind were created than are new. One that was removed again, or is in no state, counts."""
    creations = [c for c in e.calls if c.done and c.operation in CREATES and c.operation not in IDEMPOTENT]
    # A repetition that AWS recognises is answered with the same object, and creates nothing.
    objects = {(c.operation, c.created or f"call {number}") for number, c in enumerate(creations)}
    made = Counter(CREATES[operation] for operation, _ in objects)
    # As long as work is missing, an object in no state may still be the only one of its name.
    used = e.states_after.things if e.resumed else e.cloud_after
    new = Counter(thing.kind for thing in used - e.cloud_before)
    return [Violation("duplicated", f"{number - new[kind]} × {kind}: {number} created, {new[kind]} of them in use")
            for kind, number in made.items() if number > new[kind] and e.operation != "delete"]


def what_existed_still_exists(e: Evidence) -> list[Violation]:
    """No object that existed before the trial, or that was finished at the kill, was replaced or removed."""
    if e.operation == "delete":
        return []
    finished = e.cloud_before | e.states_at_strike.things
    gone = {t for t in finished - e.cloud_after if t.kind not in MEANT_TO_GO.get(e.operation, set())}
    return [Violation("replaced", f"{thing} was finished and is gone") for thing in gone]


def finished_objects_stay_known(e: Evidence) -> list[Violation]:
    """What terraform had written into a state is in a state afterwards, if it exists."""
    known = e.states_after.things
    return [Violation("lost", f"{thing} was in a state and is forgotten")
            for thing in (e.states_at_strike.things & e.cloud_after) - known]


def no_torn_or_older_state_was_accepted(e: Evidence) -> list[Violation]:
    """Every state file is whole, and continues the one that was there."""
    broken = [Violation("torn", f"the state of {name} is not whole") for name in e.states_after.torn]
    for name, old in e.states_at_strike.by_workspace.items():
        new = e.states_after.by_workspace.get(name)
        if new is None and e.operation != "delete":
            broken.append(Violation("torn", f"the state of {name} is missing"))
        elif new is not None and new.lineage != old.lineage:
            broken.append(Violation("torn", f"the state of {name} has another lineage"))
        elif new is not None and new.serial < old.serial:
            broken.append(Violation("torn", f"the state of {name} went from serial {old.serial} to {new.serial}"))
    return broken


def work_goes_on_by_itself(e: Evidence) -> list[Violation]:
    """The same command, or the operator alone, finishes the work: nothing is unlocked, repaired, approved or removed by hand."""
    if e.unlocked_by_hand:
        return [Violation("manual", "a lock had to be removed by hand")]
    if e.resumed:
        return []
    why = e.failures[-1] if e.failures else "no end in sight"
    return [Violation("manual" if e.asked_for_help else "stuck", why)]


def a_second_plan_has_nothing_to_do(e: Evidence) -> list[Violation]:
    """Configuration, state and cloud agree, and nothing is marked to be replaced."""
    tainted = [Violation("unsettled", f"{thing} is tainted") for thing in e.states_after.tainted]
    if e.resumed and e.changes_planned:
        tainted.append(Violation("unsettled", f"the next plan is not empty: {e.changes_planned}"))
    return tainted


def a_deletion_leaves_nothing(e: Evidence) -> list[Violation]:
    """After a deletion nothing exists and nothing is known."""
    if e.operation != "delete" or not e.resumed:
        return []
    return [Violation("lost", f"{thing} is left") for thing in e.cloud_after | e.states_after.things]


INVARIANTS = (
    the_cloud_is_the_union_of_the_states,
    each_object_was_created_once,
    what_existed_still_exists,
    finished_objects_stay_known,
    no_torn_or_older_state_was_accepted,
    work_goes_on_by_itself,
    a_second_plan_has_nothing_to_do,
    a_deletion_leaves_nothing,
)


def judge(evidence: Evidence) -> list[Violation]:
    """All broken promises of a trial, each once."""
    found = [violation for invariant in INVARIANTS for violation in invariant(evidence)]
    return list(dict.fromkeys(sorted(found, key=lambda v: (VERDICTS.index(v.verdict), v.what))))
