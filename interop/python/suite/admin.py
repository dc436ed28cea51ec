"""A client of the server's admin API, which splits and merges partitions and injects faults.

Its requests are signed with the resource type "_changefeed" and the rest of the path as the link.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
import urllib.request
from email.utils import formatdate
from urllib.parse import quote, urljoin

from .env import CERTIFICATE, ENDPOINT, KEY


def _call(method, segments, body=None):
    date = formatdate(usegmt=True)
    text = f"{method.lower()}\n_changefeed\n{'/'.join(segments)}\n{date.lower()}\n\n"
    signature = base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()
    url = urljoin(ENDPOINT, "/_changefeed/" + "/".join(quote(s, safe="") for s in segments))
    request = urllib.request.Request(
        url,
        method=method,
        headers={"x-ms-date": date, "Authorization": quote(f"type=master&ver=1.0&sig={signature}", safe="")},
        data=None if body is None else json.dumps(body).encode(),
    )
    context = ssl.create_default_context(cafile=CERTIFICATE) if CERTIFICATE else None
    with urllib.request.urlopen(request, context=context) as answer:
        content = answer.read()
    return json.loads(content) if content else None


async def _send(*args):
    return await asyncio.to_thread(_call, *args)


def _partitions(container):
    _, database, _, name = container.container_link.split("/")
    return ["dbs", database, "colls", name, "partitions"]


async def split_first(container):
    """Splits the first partition of a container in its middle."""
    path = _partitions(container)
    first = (await _send("GET", path))["partitions"][0]
    assert len((await _send("POST", [*path, first["id"], "split"]))["partitions"]) == 2


async def merge_first(container):
    """Merges the first two partitions of a container."""
    path = _partitions(container)
    first = (await _send("GET", path))["partitions"][0]
    assert len((await _send("POST", [*path, first["id"], "merge"]))["partitions"]) == 1


async def throttle(container, retry_after_ms):
    """Makes the server refuse three of ten creates in a container with 429 and a retry delay.

    The returned function stops that and returns the number of refused creates.
    """
    _, database, _, name = container.container_link.split("/")
    fault = await _send("POST", ["faults"], {
        "operation": "create document", "database": database, "container": name, "probability": 0.3,
        "status": 429, "subStatus": 3200, "retryAfterMs": retry_after_ms,
    })

    async def end():
        faults = (await _send("GET", ["faults"]))["faults"]
        await _send("DELETE", ["faults", fault["id"]])
        return next(f["hits"] for f in faults if f["id"] == fault["id"])

    return end
