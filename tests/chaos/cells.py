"""The matrix: victim × moment × call × operation, and which cells are left out and why.

The name of a cell says everything that a replay needs besides the seed, which chooses latencies and how long AWS takes:

  command/network/create/CreateSubnet.3/in-flight/terraform
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from dataclasses import dataclass, replace

MODES = ("command", "operator", "replicas", "plain", "plain-http")
CREATES = {
    "network": {"CreateVpc": 1, "CreateSubnet": 4, "CreateInternetGateway": 1, "CreateRouteTable": 3, "CreateRoute": 3,
                "AssociateRouteTable": 4, "AllocateAddress": 1, "CreateNatGateway": 1},
    "cluster": {"CreateRole": 2, "AttachRolePolicy": 2, "CreateKey": 1, "CreateAlias": 1, "CreateLogGroup": 1,
                "CreateCluster": 1, "CreateOpenIDConnectProvider": 1, "CreateFargateProfile": 1, "CreateAddon": 1,
                "CreateAccessEntry": 1, "AssociateAccessPolicy": 1},
    # No built-in module makes a security group.
    "template": {"CreateSecurityGroup": 1, "AllocateAddress": 1, "CreateRole": 1},
}
CHANGES = {
    ("network", "update"): {"CreateTags": 5},
    ("cluster", "upgrade"): {"UpdateClusterVersion": 1},
    ("cluster", "relog"): {"UpdateClusterConfig": 1},
    ("cluster", "retain"): {"PutRetentionPolicy": 1},
    ("cluster", "shrink"): {"DeleteAddon": 1, "DeleteAccessEntry": 1, "DeleteFargateProfile": 1},
    ("network", "delete"): {"DeleteVpc": 1, "DeleteSubnet": 4, "DeleteNatGateway": 1, "ReleaseAddress": 1},
}
MOMENTS = ("before", "in-flight", "after", "answered", "written")
VICTIMS = ("terraform", "shim", "terraform+shim", "provider", "gateway", "operator", "everything", "everything+disk")
# Victims of two replicas with one API: the leader, its pod, or the API server.
LEADERS = ("leader-frozen", "leader-partitioned", "leader-restarted", "pod+disk", "api-server")
LEADER_CALLS = ("CreateVpc", "CreateSubnet", "CreateNatGateway", "CreateRole", "CreateKey", "CreateCluster", "CreateAddon")
# Trials in which nobody is killed.
FAULTS = ("answer-lost", "disk-full")
CALLER_LIVES = ("terraform", "shim", "terraform+shim", "operator")


@dataclass(frozen=True)
class Cell:
    """One trial, except for its seed."""

    mode: str
    configuration: str
    operation: str
    call: str
    nth: int
    moment: str
    victim: str

    def __str__(self) -> str:
        return "/".join((self.mode, self.configuration, self.operation, f"{self.call}.{self.nth}", self.moment, self.victim))


def parse_cell(text: str) -> Cell:
    try:
        mode, configuration, operation, call, moment, victim = text.split("/")
        name, _, nth = call.partition(".")
        return Cell(mode, configuration, operation, name, int(nth or 1), moment, victim)
    except ValueError:
        raise SystemExit(f"error: not a cell: {text}; one looks like "
                         "command/network/create/CreateSubnet.3/in-flight/terraform") from None


def why_excluded(cell: Cell) -> str | None:
    """The reason why a cell is no trial, or None."""
    if cell.moment == "before" and cell.victim in CALLER_LIVES:
        return "the provider lives and sends the call anyway: the same trial as 'in-flight'"
    if cell.operation != "create" and cell.moment in ("answered", "written"):
        return "the object keeps its id whether or not the change was recorded: 'after' shows the same"
    if cell.configuration == "template" and cell.victim not in CALLER_LIVES:
        return "the answer died with its receiver, and nothing tells a user's own objects from others: capt has to ask"
    if cell.victim in LEADERS and cell.operation != "create":
        return "leadership changes hands with the same code whatever the run does"
    if cell.victim in LEADERS and cell.call not in LEADER_CALLS:
        return "a change of leaders takes longer than any call: one call of each service and duration is enough"
    exact = ("in-flight", "after", "answered") if cell.victim == "pod+disk" else ("in-flight",)
    if cell.victim in LEADERS and cell.moment not in exact:
        return "a freeze, a cut and a restart last longer than any moment of a call"
    if cell.configuration == "template" and cell.victim in ("shim", "operator"):
        return "terraform, gateway and provider live: nothing depends on whose module it is"
    if cell.victim == "disk-full" and cell.moment != "answered":
        return "the disk has to be full when the result is to be written"
    return None


# Not in the matrix at all:
# - 'after journal' and 'after state store': both are names of steps inside the product. 'answered' lies before, 'written' after
#   them, and the seed moves the kill in between.
# - deletion of a cluster: the provider waits a random time of up to a minute before it deletes one. The deletion of what is in
#   the cluster is in the matrix ('shrink').
# - plain terraform with the kubernetes backend: it persists every 20 s like the http backend, which is measured.
NOT_IN_THE_MATRIX = ("after journal", "after state store", "DeleteCluster", "kubernetes backend")


def _calls() -> list[tuple[str, str, str, int]]:
    made = [(c, "create", call, n) for c, calls in CREATES.items() for call, n in calls.items()]
    return made + [(c, operation, call, n) for (c, operation), calls in CHANGES.items() for call, n in calls.items()]


def mode_of(call: str, moment: str, victim: str) -> str:
    """Every second cell runs with the operator, every other one on the command line."""
    if victim == "everything+disk":
        return "operator"  # a command line keeps no copy elsewhere
    if victim == "disk-full":
        return "command"
    return ("command", "operator")[zlib.crc32(f"{call}/{moment}/{victim}".encode()) % 2]


def all_cells(seed: int) -> list[Cell]:
    """Every feasible cell; which of several equal calls is struck follows from the seed."""
    chance = random.Random(seed)
    cells = []
    for configuration, operation, call, count in _calls():
        for victim in VICTIMS:
            for moment in MOMENTS:
                nth = chance.randint(1, count)
                cells.append(Cell(mode_of(call, moment, victim), configuration, operation, call, nth, moment, victim))
        if operation == "create":
            cells.append(Cell(mode_of(call, "lost", "answer-lost"), configuration, operation, call, chance.randint(1, count),
                              "lost", "answer-lost"))
        if operation == "create" and configuration == "network":
            nth = chance.randint(1, count)
            cells.append(Cell("command", configuration, operation, call, nth, "answered", "disk-full"))
        if operation == "create" and configuration != "template":
            cells += [Cell("replicas", configuration, operation, call, chance.randint(1, count), moment, victim)
                      for victim in LEADERS for moment in MOMENTS]
    return [cell for cell in cells if why_excluded(cell) is None]


def _features(cell: Cell) -> list[str]:
    """What a sample should have as many of as possible. Creations are not counted: most gets lost while it is made."""
    change = [] if cell.operation == "create" else [cell.operation]
    return [cell.victim, cell.victim + cell.moment, cell.moment, cell.call, f"mode {cell.mode}", cell.configuration, *change]


def in_order(seed: int, representative: int = 60) -> list[Cell]:
    """All cells in the order of a seed: the first ones cover as many victims, moments and calls as possible."""
    rest = all_cells(seed)
    random.Random(seed).shuffle(rest)
    chosen: list[Cell] = []
    seen: Counter[str] = Counter()
    for _ in range(min(representative, len(rest))):
        best = min(rest, key=lambda cell: (seen[cell.victim], sum(seen[feature] for feature in _features(cell))))
        rest.remove(best)
        chosen.append(best)
        seen.update(_features(best))
    return chosen + rest


def plain_cells(seed: int, mode: str) -> list[Cell]:
    """The cells in which plain terraform can be compared: it has no shim, gateway or operator."""
    known = [c for c in all_cells(seed) if c.victim in ("terraform", "provider", "everything", "answer-lost")]
    cells = [replace(c, mode=mode) for c in known if c.configuration != "template" and c.operation in ("create", "delete")]
    random.Random(seed).shuffle(cells)
    return cells
