"""The local AWS of one trial: start, seed, and what exists in it, object by object."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import time
import urllib.parse
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from processes import read_process

REGION = "eu-central-1"
ACCOUNT = "123456789012"
ADMIN_ROLE = f"arn:aws:iam::{ACCOUNT}:role/admin"


class Thing(NamedTuple):
    """One object, named alike in the cloud and in a state."""

    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class Cloud:
    """A local AWS in a directory of its own, so that no kill reaches it."""

    def __init__(self, capt: Path, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._log = (directory / "aws.log").open("wb")
        port = _free_port()
        self.process = subprocess.Popen(
            [str(capt), "aws", "serve", "--data", str(directory), "--port", str(port), "--python", str(_moto_python())],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, start_new_session=True)
        self.port = port
        self._wait_until_served(directory / "local-aws/server.json")
        self.seeded: set[Thing] = set()

    def _wait_until_served(self, record: Path) -> None:
        end = time.monotonic() + 120
        while not record.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the local AWS did not start; its log is {self._log.name}")
            time.sleep(0.05)
        self.record = json.loads(record.read_text())

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._log.close()

    # --- calls ------------------------------------------------------------------------------------------------------------

    def call(self, method: str, path: str, service: str, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
        scope = f"AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/{service}/aws4_request, SignedHeaders=host, Signature=0"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body=body, headers={"Authorization": scope, **(headers or {})})
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status >= 300:
            raise RuntimeError(f"{service} {method} {path} {body[:80]!r}: {response.status} {answer[:300]!r}")
        return answer

    def query(self, service: str, action: str, **parameters: str) -> ElementTree.Element:
        version = {"ec2": "2016-11-15", "iam": "2010-05-08"}[service]
        body = urllib.parse.urlencode({"Action": action, "Version": version, **parameters}).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        root = ElementTree.fromstring(self.call("POST", "/", service, body, kind))
        for element in root.iter():
            element.tag = element.tag.rsplit("}", 1)[-1]
        return root

    def target(self, service: str, target: str, request: dict[str, Any]) -> dict[str, Any]:
        headers = {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.1"}
        return json.loads(self.call("POST", "/", service, json.dumps(request).encode(), headers))

    # --- seed -------------------------------------------------------------------------------------------------------------

    def seed_network(self) -> tuple[str, list[str]]:
        """A VPC with two private subnets and a role, made by somebody else: what a cluster needs."""
        vpc = _text(self.query("ec2", "CreateVpc", CidrBlock="10.70.0.0/16"), "vpcId")
        subnets = [
            _text(self.query("ec2", "CreateSubnet", VpcId=vpc, CidrBlock=f"10.70.{number}.0/24",
                             AvailabilityZone=REGION + zone), "subnetId")
            for number, zone in enumerate("ab")
        ]
        self.query("iam", "CreateRole", RoleName="admin", AssumeRolePolicyDocument='{"Version":"2012-10-17","Statement":[]}')
        self.seeded = self._everything()
        return vpc, subnets

    # --- what exists ------------------------------------------------------------------------------------------------------

    def objects(self) -> set[Thing]:
        """Everything that exists and was not there before the trial."""
        return self._everything() - self.seeded

    def _everything(self) -> set[Thing]:
        items = json.loads(self.call("GET", "/_capt/inventory", "sts"))["items"]
        found = {Thing(i["type"], i["id"].removesuffix(":*")) for i in items if not _made_by_aws(i)}
        found.update(self._routes())
        found.update(self._attachments([i["name"] for i in items if i["type"] == "role"]))
        aliases = self.target("kms", "TrentService.ListAliases", {})["Aliases"]
        found.update(Thing("alias", a["AliasName"]) for a in aliases if not a["AliasName"].startswith("alias/aws/"))
        found.update(self._access_policies(i for i in items if i["type"] == "access-entry" and not _made_by_aws(i)))
        return found

    def _routes(self) -> Iterator[Thing]:
        for table in self.query("ec2", "DescribeRouteTables").iterfind("routeTableSet/item"):
            name = _text(table, "routeTableId")
            for route in table.iterfind("routeSet/item"):
                # The route to the VPC itself comes with the table.
                if _text(route, "gatewayId") != "local":
                    yield Thing("route", f"{name}/{_text(route, 'destinationCidrBlock')}")
            for association in table.iterfind("associationSet/item"):
                if _text(association, "main") != "true":
                    yield Thing("route-table-association", _text(association, "routeTableAssociationId"))

    def _attachments(self, roles: list[str]) -> Iterator[Thing]:
        for role in roles:
            for policy in self.query("iam", "ListAttachedRolePolicies", RoleName=role).iter("PolicyArn"):
                yield Thing("policy-attachment", f"{role}/{policy.text}")

    def _access_policies(self, entries: Iterator[dict[str, str]]) -> Iterator[Thing]:
        for entry in entries:
            cluster, principal = entry["name"].split("/", 1)
            path = f"/clusters/{cluster}/access-entries/{urllib.parse.quote(principal, safe='')}/access-policies"
            for policy in json.loads(self.call("GET", path, "eks"))["associatedAccessPolicies"]:
                yield Thing("access-policy", f"{cluster}/{principal}/{policy['policyArn']}")


def _made_by_aws(item: dict[str, str]) -> bool:
    """What EKS makes along with a cluster, and the user that the credentials belong to."""
    if item["type"] == "access-entry":
        return item["status"] == "FARGATE_LINUX" or item["name"].endswith(":user/moto")
    return item["type"] == "user" or (item["type"] == "security-group" and item["name"].startswith("eks-cluster-sg-"))


def _text(element: ElementTree.Element, name: str) -> str:
    found = element.find(f".//{name}")
    return (found.text or "") if found is not None else ""


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _moto_python() -> Path:
    if python := os.environ.get("CAPT_LOCAL_AWS_PYTHON"):
        return Path(python)
    cache = Path(os.environ.get("CAPT_CACHE") or Path(__file__).resolve().parents[2] / ".cache")
    return cache / "moto-venv/bin/python"


class FakeDaemon:
    """What `DATA/local-aws/server.json` points to: a process that may be stopped in place of the local AWS, and the proxy."""

    def __init__(self, data: Path, cloud: Cloud, endpoint: str) -> None:
        self.endpoint = endpoint
        self._places = [data]
        self._record = {**cloud.record, "endpoint": endpoint}
        self.process: subprocess.Popen[bytes] | None = None
        self.ensure()

    def ensure(self) -> None:
        """`capt destroy` and `capt down` stop the local AWS at the end; the next command shall find it again."""
        if self.process is not None and self.process.poll() is None:
            return
        self.process = subprocess.Popen(["sleep", "infinity"], stdin=subprocess.DEVNULL, start_new_session=True)
        about = read_process(self.process.pid)
        assert about is not None
        self._record["process"] = {"pid": about.pid, "started": int(about.started)}
        for data in self._places:
            self._write(data)

    def announce(self, data: Path) -> None:
        """Another data directory finds it, too."""
        self._places.append(data)
        self._write(data)

    def _write(self, data: Path) -> None:
        place = data / "local-aws"
        place.mkdir(parents=True, mode=0o700, exist_ok=True)
        (place / "server.json").write_text(json.dumps(self._record))

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
