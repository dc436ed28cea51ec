"""The environment of a run, and what a user writes to reach the server: endpoint and key.

The certificate is trusted by the environment (REQUESTS_CA_BUNDLE and SSL_CERT_FILE, see ../run).
"""

import asyncio
import itertools
import os
import time
from contextlib import AsyncExitStack

from azure.cosmos import PartitionKey, ThroughputProperties
from azure.cosmos.exceptions import CosmosHttpResponseError

from . import sdk


def required(name):
    value = os.environ.get(name)
    if not value:
        raise SystemExit(f"{name} is not set: the suite runs against a server, see interop/README.md")
    return value


ENDPOINT = required("CHANGEFEED_ENDPOINT")
KEY = required("CHANGEFEED_KEY")
READ_ONLY_KEY = required("CHANGEFEED_READONLY_KEY")
CERTIFICATE = os.environ.get("CHANGEFEED_CA") or None

# The column of the runner's table that this process is: the SDK's synchronous client, or its asynchronous one.
SYNC = os.environ.get("CHANGEFEED_SUITE", "python") == "python"

_numbers = itertools.count(1)


def new_client(key=KEY, **more):
    """A client of the SDK, to be used as a context manager."""
    return sdk.client(SYNC, ENDPOINT, key, **more)


def everywhere():
    """What a query over all partitions needs: the synchronous client wants to be told."""
    return {"enable_cross_partition_query": True} if SYNC else {}


class Run:
    """What a scenario gets: a client of its own, and containers that no other has.

    The client is not shared, because the SDK tells the continuation of a change feed by the headers of
    the last answer that a client got, whichever call that was of.
    """

    def __init__(self, client):
        self.client = client
        self._databases = []
        self._clients = AsyncExitStack()

    async def another(self, container, key=KEY, **more):
        """The same container by a client of its own."""
        client = await self._clients.enter_async_context(new_client(key, **more))
        _, database, _, name = container.container_link.split("/")
        return client.get_database_client(database).get_container_client(name)

    async def database(self):
        """Makes a database of this scenario's own."""
        database = await self.client.create_database(f"{'py' if SYNC else 'aio'}-{os.getpid()}-{next(_numbers)}")
        self._databases.append(database.id)
        return database

    async def container(self, paths="/pk", throughput=20_000, **definition):
        """Makes a database with one container in it; of 20,000 RU/s, and so of two partitions, unless said otherwise."""
        database = await self.database()
        return await database.create_container("items", PartitionKey(path=paths), offer_throughput=throughput, **definition)

    async def close(self):
        await self._clients.aclose()
        for database in self._databases:
            await self.client.delete_database(database)


def autoscale(most):
    return ThroughputProperties(auto_scale_max_throughput=most)


async def refused(call, status):
    """Fails unless what is awaited is refused with that status; returns the SDK's error."""
    try:
        await call
    except CosmosHttpResponseError as err:
        assert err.status_code == status, f"{err.status_code}, not {status}: {err.message}"
        assert err.message, "the refusal says nothing"
        return err
    raise AssertionError(f"not refused with {status}")


async def until(what, done):
    """Asks every 50 ms until done says so; a minute is long enough for anything here."""
    deadline = time.monotonic() + 60
    while not await done():
        assert time.monotonic() < deadline, f"not within a minute: {what}"
        await asyncio.sleep(0.05)


def equal(got, want, what=""):
    assert got == want, f"{what}: {got!r}, not {want!r}"


def spread(n, v):
    """n items over ten keys, which two partitions share."""
    return [{"id": str(i), "pk": f"key {i % 10}", "v": v} for i in range(n)]


async def upsert(container, items):
    for item in items:
        await container.upsert_item(item)


def ids(items):
    return sorted(i["id"] for i in items)
