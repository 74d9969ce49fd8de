"""What the Terraform states of a data directory say, object by object, and the newest state that was ever seen whole."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from cloud import Thing

Attributes = dict[str, Any]

# Type of a resource -> kind of the object in the cloud, and what names it there. Types without an entry have no object of
# their own (`terraform_data`).
_KINDS: dict[str, tuple[str, Callable[[Attributes], str]]] = {
    "aws_vpc": ("vpc", lambda a: a["id"]),
    "aws_subnet": ("subnet", lambda a: a["id"]),
    "aws_internet_gateway": ("internet-gateway", lambda a: a["id"]),
    "aws_nat_gateway": ("nat-gateway", lambda a: a["id"]),
    "aws_eip": ("elastic-ip", lambda a: a["allocation_id"] or a["id"]),
    "aws_route_table": ("route-table", lambda a: a["id"]),
    "aws_route": ("route", lambda a: f"{a['route_table_id']}/{a['destination_cidr_block']}"),
    "aws_route_table_association": ("route-table-association", lambda a: a["id"]),
    "aws_security_group": ("security-group", lambda a: a["id"]),
    "aws_iam_role": ("role", lambda a: a["arn"]),
    "aws_iam_role_policy_attachment": ("policy-attachment", lambda a: f"{a['role']}/{a['policy_arn']}"),
    "aws_iam_openid_connect_provider": ("oidc-provider", lambda a: a["arn"]),
    "aws_kms_key": ("key", lambda a: a["arn"]),
    "aws_kms_alias": ("alias", lambda a: a["name"]),
    "aws_cloudwatch_log_group": ("log-group", lambda a: str(a["arn"]).removesuffix(":*")),
    "aws_eks_cluster": ("cluster", lambda a: a["arn"]),
    "aws_eks_addon": ("addon", lambda a: a["arn"]),
    "aws_eks_fargate_profile": ("fargate-profile", lambda a: a["arn"]),
    "aws_eks_access_entry": ("access-entry", lambda a: a["access_entry_arn"]),
    "aws_eks_access_policy_association": (
        "access-policy", lambda a: f"{a['cluster_name']}/{a['principal_arn']}/{a['policy_arn']}"),
}


@dataclass(frozen=True)
class State:
    """One state file that parsed."""

    lineage: str
    serial: int
    things: frozenset[Thing]
    tainted: frozenset[Thing]


@dataclass
class States:
    """The states of all workspaces at one instant."""

    by_workspace: dict[str, State] = field(default_factory=dict)
    torn: list[str] = field(default_factory=list)

    @property
    def things(self) -> set[Thing]:
        return {thing for state in self.by_workspace.values() for thing in state.things}

    @property
    def tainted(self) -> set[Thing]:
        return {thing for state in self.by_workspace.values() for thing in state.tainted}


def parse_state(text: str) -> State:
    document = json.loads(text)
    things, tainted = set(), set()
    for resource in document.get("resources", []):
        known = _KINDS.get(resource["type"])
        if known is None or resource["mode"] != "managed":
            continue
        kind, name = known
        for instance in resource["instances"]:
            # A creation that was interrupted leaves an instance without an id: nothing that could be in the cloud.
            if instance.get("attributes") and instance["attributes"].get("id"):
                thing = Thing(kind, name(instance["attributes"]))
                things.add(thing)
                if instance.get("status") == "tainted":
                    tainted.add(thing)
    return State(document["lineage"], int(document["serial"]), frozenset(things), frozenset(tainted))


def read_states(data: Path) -> States:
    """All states below a directory. An empty or cut file is `torn`."""
    states = States()
    # A backend's record has the same name, below `.terraform`.
    files = [f for f in data.rglob("terraform.tfstate") if ".terraform" not in f.parts]
    for file in files:
        name = str(file.parent.relative_to(data))
        try:
            states.by_workspace[name] = parse_state(file.read_text())
        except FileNotFoundError:
            continue
        except (ValueError, KeyError):
            states.torn.append(name)
    return states


class StateWatch:
    """Reads the states again and again, because a kill may leave a torn file: what was in it before counts."""

    def __init__(self, read: Callable[[], States]) -> None:
        self._read, self._latest, self._lock = read, States(), threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            self.now()

    def now(self) -> States:
        """The newest state of each workspace that was seen whole; `torn` is what the file is right now."""
        states = self._read()
        with self._lock:
            for name, state in states.by_workspace.items():
                known = self._latest.by_workspace.get(name)
                if known is None or state.serial >= known.serial:
                    self._latest.by_workspace[name] = state
            return States(dict(self._latest.by_workspace), states.torn)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
