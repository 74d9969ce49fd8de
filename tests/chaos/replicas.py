"""Two replicas of the operator on one Kubernetes API, each with a disk of its own, as pods have: leadership changes hands.

The API is a process of its own here, so that it can be killed, and the first replica reaches it through a forwarder, so that it can
be cut off while the second one is not.
"""

from __future__ import annotations

import re
import select
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from cloud import FakeDaemon
from drivers import KubernetesDriver, Outcome, Work
from processes import kill, kill_role, processes_of
from states import States, read_states


class Forwarder:
    """Forwards TCP connections until it is cut."""

    def __init__(self, port: int) -> None:
        self._port, self._pairs, self._cut = port, set[socket.socket](), False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                if self._cut:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                if self._listener.fileno() < 0:
                    return
                continue
            self._pairs |= {client, server}
            threading.Thread(target=self._pump, args=(client, server), daemon=True).start()

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        try:
            while True:
                for ready in select.select([client, server], [], [], 1)[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    other[ready].sendall(data)
        except (OSError, ValueError):
            pass
        finally:
            client.close()
            server.close()

    def cut(self) -> None:
        """Nothing passes any more, in either direction."""
        self._cut = True
        for end in list(self._pairs):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def heal(self) -> None:
        self._cut = False

    def close(self) -> None:
        self._listener.close()


class ReplicasDriver(KubernetesDriver):
    """`capt run --leader-elect`, twice."""

    patience = 1
    _restart: threading.Timer | None = None

    def attach(self, daemon: FakeDaemon) -> None:
        super().attach(daemon)
        self.first, self.second = self.data / "first", self.data / "second"
        for replica in (self.first, self.second):
            replica.mkdir()
            daemon.announce(replica)
        self.kubeconfig = self.root / "api/kube/kubeconfig"
        self._begin_api()
        text = self.kubeconfig.read_text()
        port = re.search(r"https://127\.0\.0\.1:(\d+)", text)
        assert port is not None, text
        self.forwarder = Forwarder(int(port[1]))
        self.forwarded = self.root / "first.kubeconfig"
        self.forwarded.write_text(text.replace(f"127.0.0.1:{port[1]}", f"127.0.0.1:{self.forwarder.port}"))
        self._install()
        self.begin_first()
        self._wait_for_leader(self.first)
        self._begin_replica(self.second, self.kubeconfig)

    def _begin_api(self) -> None:
        self.api = self.run([str(self.capt), "kube", "--data", str(self.root / "api")])
        self._wait(lambda: self.kubectl("get", "--raw", "/readyz").returncode == 0, "the Kubernetes API")

    def restart_api(self) -> list[str]:
        """The API server dies, and is back after a while, as a kubelet restarts it."""
        dead = [p for p in processes_of(self.root / "api") if p.args[1:2] == ("kube",)]
        kill(dead)
        self._restart = threading.Timer(5.0, self.run, [[str(self.capt), "kube", "--data", str(self.root / "api")]])
        self._restart.start()
        return [f"api:{p.pid}" for p in dead]

    def _install(self) -> None:
        crds = subprocess.run([str(self.capt), "crds"], capture_output=True, check=True).stdout
        for arguments, stdin in ((("apply", "-f", "-"), crds), (("create", "namespace", "capt-system"), None)):
            done = self.kubectl(*arguments, stdin=stdin)
            if done.returncode != 0:
                raise RuntimeError(f"kubectl {arguments}: {done.stderr.decode()[-300:]}")

    def begin_first(self) -> None:
        self._begin_replica(self.first, self.forwarded)

    def _begin_replica(self, data: Path, kubeconfig: Path) -> None:
        self.run([str(self.capt), "run", "--kubeconfig", str(kubeconfig), "--data", str(data), "--aws", self.daemon.endpoint,
                  "--leader-elect", "--listen", "off", "--standalone", "on"])

    def _wait_for_leader(self, data: Path) -> None:
        self._wait(lambda: self.leader() == data, f"{data.name} to become the leader")

    def leader(self) -> Path | None:
        holder = self.kubectl("get", "lease", "capt-leader", "-n", "capt-system", "-o", "jsonpath={.spec.holderIdentity}")
        for replica in (self.first, self.second):
            if any(f"_{p.pid}_" in holder.stdout.decode() for p in processes_of(replica) if p.role == "operator"):
                return replica
        return None

    def _wait(self, condition: Any, what: str) -> None:
        end = time.monotonic() + 60
        while not condition():
            if time.monotonic() > end:
                raise RuntimeError(f"waited for {what}")
            time.sleep(0.2)

    def start(self, operation: str) -> Work:
        applied = self.kubectl("apply", "-f", str(self.manifest(operation)))
        if applied.returncode != 0:
            raise RuntimeError(f"kubectl apply: {applied.stderr.decode()[-300:]}")
        # `settle` does the waiting; this is what can be waited for until the strike.
        return self.run(["sleep", "600"])

    def finished(self, work: Work, end: float, operation: str) -> Outcome:
        return work.wait(0)

    def states(self) -> States:
        """What the replica that took over knows; what the first one knows of workspaces that it had no need to look at."""
        states, taken = read_states(self.first), read_states(self.second)
        return States(states.by_workspace | taken.by_workspace, states.torn + taken.torn)

    def lose_pod(self) -> list[str]:
        from faults import lose_disk

        killed = kill_role(self.first, "everything")
        lose_disk(self.first)
        return killed

    def changes_planned(self, operation: str) -> str | None:
        # A plan needs the disk of the leader, and the operator's lock on it.
        leader = self.leader() or self.second
        for replica in (self.first, self.second):
            kill_role(replica, "operator")
        if not read_states(leader).by_workspace:
            leader = self.first
        return self.plan_of(leader, operation)

    def close(self) -> None:
        self.forwarder.close()
        if self._restart is not None:
            self._restart.cancel()
            self._restart.join()
        kill(processes_of(self.root / "api"))

