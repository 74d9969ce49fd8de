"""Serves moto on a free loopback port while standard input stays open.

The parent holds the other end of that pipe, so moto exits with it even if the parent is killed
with SIGKILL. The first line on standard output is {"port": N}.
"""

import json
import logging
import os
import sys
import threading


def die_with_parent():
    sys.stdin.buffer.read()
    os._exit(0)


threading.Thread(target=die_with_parent, daemon=True).start()

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app  # noqa: E402
from werkzeug.serving import make_server  # noqa: E402

if "--access-log" not in sys.argv:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)

server = make_server(
    "127.0.0.1",
    0,
    DomainDispatcherApplication(create_backend_app),
    threaded=True,
    request_handler=MotoRequestHandler,
)
print(json.dumps({"port": server.server_port}), flush=True)
# The parent stops reading standard output here, and moto occasionally prints to it.
sys.stdout = sys.stderr
server.serve_forever()
