"""The environment of a run, and a client from endpoint and key, as a user would create it.

REQUESTS_CA_BUNDLE and SSL_CERT_FILE make it trust the certificate (see ../run).
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

# SYNC is true if this process runs the suite "python", with the SDK's synchronous client.
SYNC = os.environ.get("CHANGEFEED_SUITE", "python") == "python"

_numbers = itertools.count(1)


def new_client(key=KEY, **more):
    """Returns a client of the SDK as a context manager."""
    return sdk.client(SYNC, ENDPOINT, key, **more)


def everywhere():
    """Returns the options of a query over all partitions. Only the synchronous client needs one."""
    return {"enable_cross_partition_query": True} if SYNC else {}


class Run:
    """The client of one scenario, and the containers that it creates.

    Scenarios share no client. The SDK returns the continuation of a change feed only in the headers
    of the client's last answer, and any other request replaces those.
    """

    def __init__(self, client):
        self.client = client
        self._databases = []
        self._clients = AsyncExitStack()

    async def another(self, container, key=KEY, **more):
        """Returns the same container of another client."""
        client = await self._clients.enter_async_context(new_client(key, **more))
        _, database, _, name = container.container_link.split("/")
        return client.get_database_client(database).get_container_client(name)

    async def database(self):
        """Creates a database, which close deletes."""
        database = await self.client.create_database(f"{'py' if SYNC else 'aio'}-{os.getpid()}-{next(_numbers)}")
        self._databases.append(database.id)
        return database

    async def container(self, paths="/pk", throughput=20_000, **definition):
        """Creates a database with one container. By default it has 20,000 RU/s and so two partitions."""
        database = await self.database()
        return await database.create_container("items", PartitionKey(path=paths), offer_throughput=throughput, **definition)

    async def close(self):
        await self._clients.aclose()
        for database in self._databases:
            await self.client.delete_database(database)


def autoscale(most):
    return ThroughputProperties(auto_scale_max_throughput=most)


async def refused(call, status):
    """Fails unless the server refuses the call with that status. It returns the SDK's error."""
    try:
        await call
    except CosmosHttpResponseError as err:
        assert err.status_code == status, f"{err.status_code}, not {status}: {err.message}"
        assert err.message, "the refusal says nothing"
        return err
    raise AssertionError(f"not refused with {status}")


async def until(what, done):
    """Calls done every 50 ms until it returns true. It fails after a minute."""
    deadline = time.monotonic() + 60
    while not await done():
        assert time.monotonic() < deadline, f"not within a minute: {what}"
        await asyncio.sleep(0.05)


def equal(got, want, what=""):
    assert got == want, f"{what}: {got!r}, not {want!r}"


def spread(n, v):
    """Returns n items of ten keys in two partitions."""
    return [{"id": str(i), "pk": f"key {i % 10}", "v": v} for i in range(n)]


async def upsert(container, items):
    for item in items:
        await container.upsert_item(item)


def ids(items):
    return sorted(i["id"] for i in items)
