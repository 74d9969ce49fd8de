#!/usr/bin/env python3
"""A fake node for one namespace: runs pods as processes on this machine.

Pods become processes, and Services become ports of 127.0.0.1. A pod with the address 10.0.0.7 is a process at 127.0.0.7: no
endpoint in Kubernetes may have an address of the loopback interface. The process gets the container's command and its
variables, and two more: IMAGE, the name of the image, and LOOPBACK, where it should listen.

It asks the API through `kubectl proxy`, so whatever kubectl can reach it can.
"""

import argparse
import asyncio
import json
import os
import pathlib
import re
import signal
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).parent
NODE = "this-machine"
LOOK = 0.2


class Api:
    """The Kubernetes API, through a `kubectl proxy`."""

    def __init__(self, address: str, namespace: str):
        self.address, self.namespace = address, namespace

    def _ask(self, method: str, path: str, body=None, kind="application/json"):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"content-type": kind}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            # Conflict with another writer; the next pass retries.
            if error.code in (404, 409):
                return None
            raise SystemExit(f"{method} {path}: {error.code} {error.read().decode()}") from error

    async def ask(self, *args, **named):
        return await asyncio.to_thread(self._ask, *args, **named)

    async def list(self, group: str, kind: str) -> list:
        found = await self.ask("GET", f"/{group}/namespaces/{self.namespace}/{kind}")
        return found["items"] if found else []

    def pod(self, name: str, sub: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{name}{sub}"


class Ports:
    """Services as ports of 127.0.0.1, in place of kube-proxy and cluster addresses."""

    def __init__(self, published: dict):
        self.published, self.servers, self.endpoints = published, {}, {}

    async def open(self, services: list):
        for service in services:
            name = service["metadata"]["name"]
            for port in service["spec"].get("ports", []):
                if (name, port["port"]) not in self.servers:
                    await self._open(name, port)

    async def _open(self, name: str, port: dict):
        key = (name, port["port"])
        server = await asyncio.start_server(
            lambda reader, writer: self._serve(key, reader, writer), "127.0.0.1", self.published.get(name, 0)
        )
        self.servers[key] = server
        if name in self.published:
            print(f"service {name} is at http://127.0.0.1:{self.published[name]}/", flush=True)

    def know(self, services: list, slices: list):
        """The current endpoints of each port."""
        names = {(it["metadata"]["name"], port.get("name", "")): port["port"] for it in services for port in it["spec"].get("ports", [])}
        self.endpoints = {}
        for piece in slices:
            service = piece["metadata"].get("labels", {}).get("kubernetes.io/service-name", "")
            for port in piece.get("ports") or []:
                key = (service, names.get((service, port.get("name", ""))))
                ready = [it for it in piece.get("endpoints") or [] if it.get("conditions", {}).get("ready")]
                found = self.endpoints.setdefault(key, [])
                found += [(loopback(address), port["port"]) for it in ready for address in it["addresses"]]

    async def _serve(self, key, reader, writer):
        # A pod may have become ready since the last pass.
        try:
            for _ in range(20):
                for address in self.endpoints.get(key, []):
                    try:
                        far = await asyncio.open_connection(*address)
                    except OSError:
                        continue
                    await asyncio.gather(pump(reader, far[1]), pump(far[0], writer))
                    return
                await asyncio.sleep(LOOK)
        finally:
            writer.close()

    def variables(self) -> dict:
        """The Service environment variables of a new pod, as set by a kubelet."""
        found = {}
        for (name, _), server in self.servers.items():
            prefix = re.sub(r"[^A-Z0-9]", "_", name.upper())
            found.setdefault(f"{prefix}_SERVICE_HOST", "127.0.0.1")
            found.setdefault(f"{prefix}_SERVICE_PORT", str(server.sockets[0].getsockname()[1]))
        return found


async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()


def loopback(address: str) -> str:
    return "127." + address.split(".", 1)[1]


class Pods:
    """Pods as processes."""

    def __init__(self, api: Api, ports: Ports):
        self.api, self.ports, self.running, self.next = api, ports, {}, 2

    async def attend(self, pods: list):
        for pod in pods:
            name, spec = pod["metadata"]["name"], pod["spec"]
            if "deletionTimestamp" in pod["metadata"]:
                await self._end(name)
                await self.api.ask("DELETE", self.api.pod(name), {"gracePeriodSeconds": 0})
            elif not spec.get("nodeName"):
                target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
                binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
                await self.api.ask("POST", self.api.pod(name, "/binding"), binding)
            elif name not in self.running:
                await self._start(pod)
        gone = set(self.running) - {pod["metadata"]["name"] for pod in pods}
        for name in gone:
            await self._end(name)

    async def _start(self, pod: dict):
        name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]
        address = f"10.0.{self.next // 250}.{self.next % 250}"
        self.next += 1
        told = {**self.ports.variables(), "IMAGE": container["image"], "LOOPBACK": loopback(address)}
        for variable in container.get("env", []):
            value = variable.get("value", "")
            if "valueFrom" in variable:
                path = variable["valueFrom"].get("fieldRef", {}).get("fieldPath", "")
                value = {"status.podIP": address, "spec.nodeName": NODE}.get(path) or pod["metadata"].get(path.removeprefix("metadata."), "")
            told[variable["name"]] = value
        command = container["command"] + container.get("args", [])
        process = await asyncio.create_subprocess_exec(*command, cwd=HERE, env={**os.environ, **told}, start_new_session=True)
        self.running[name] = process
        ports = [it["containerPort"] for it in container.get("ports", [])]
        await asyncio.gather(*(listens(loopback(address), port) for port in ports))
        await self.api.ask("PATCH", self.api.pod(name, "/status"), {"status": status(container, address)}, kind="application/merge-patch+json")
        print(f"pod {name} runs {container['image']}", flush=True)

    async def _end(self, name: str):
        process = self.running.pop(name, None)
        if process and process.returncode is None:
            process.terminate()
            print(f"pod {name} ends", flush=True)

    async def end(self):
        """Stops all processes. Routers drain their requests first; there is no need to wait for that here."""
        for process in self.running.values():
            if process.returncode is None:
                process.kill()
                await process.wait()


async def listens(address: str, port: int):
    for _ in range(300):
        try:
            _, writer = await asyncio.open_connection(address, port)
            writer.close()
            return
        except OSError:
            await asyncio.sleep(0.1)
    raise SystemExit(f"nothing listens at {address}:{port} after 30 s")


def status(container: dict, address: str) -> dict:
    """The status that a kubelet reports for a running pod."""
    now = "2026-01-01T00:00:00Z"
    kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    runs = {"name": container["name"], "image": container["image"], "imageID": "", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": now}}}
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds],
        "containerStatuses": [runs],
    }


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--namespace", default="shop")
    parser.add_argument("--publish", action="append", default=[], metavar="SERVICE=PORT", help="the port of 127.0.0.1 that a Service gets; any free one otherwise")
    args = parser.parse_args()
    published = {name: int(port) for name, port in (it.split("=") for it in args.publish)}
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    proxy = await asyncio.create_subprocess_exec("kubectl", "proxy", "--port=0", stdout=asyncio.subprocess.PIPE, start_new_session=True)
    said = (await proxy.stdout.readline()).decode()
    found = re.search(r"[\d.]+:\d+", said)
    if not found:
        raise SystemExit("kubectl cannot reach the Kubernetes API: is KUBECONFIG set, and does `capt up` run?")
    api = Api(f"http://{found[0]}", args.namespace)
    ports = Ports(published)
    pods = Pods(api, ports)
    try:
        await api.ask("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        while not stop.is_set():
            services = await api.list("api/v1", "services")
            await ports.open(services)
            ports.know(services, await api.list("apis/discovery.k8s.io/v1", "endpointslices"))
            await pods.attend(await api.list("api/v1", "pods"))
            await asyncio.sleep(LOOK)
    finally:
        await pods.end()
        proxy.terminate()


if __name__ == "__main__":
    asyncio.run(main())
