"""The steps of the SDK's README and of its change feed samples, as a user's program has them."""

import asyncio
import os
import sys
from datetime import datetime, timezone

from azure.cosmos import PartitionKey
from azure.cosmos.exceptions import CosmosResourceExistsError, CosmosResourceNotFoundError

from . import sdk
from .env import CERTIFICATE, ENDPOINT, KEY, SYNC, equal, everywhere
from .scenario import scenario
from .sdk import listed


async def products(client):
    """Runs the README's steps: create a database and a container, and write, query and delete products."""
    name = f"testDatabase-{os.getpid()}"
    try:
        database = await client.create_database(name)
    except CosmosResourceExistsError:
        database = client.get_database_client(name)
    container = await database.create_container(id="products", partition_key=PartitionKey(path="/productName"))

    for i in range(1, 10):
        await container.upsert_item({"id": f"item{i}", "productName": "Widget", "productModel": f"Model {i}"})
    everything = await listed(container.query_items('SELECT * FROM products p WHERE p.productModel = "Model 2"', **everywhere()))
    equal([p["id"] for p in everything], ["item2"])
    models = await listed(container.query_items(
        query="SELECT * FROM products p WHERE p.productModel = @model", parameters=[{"name": "@model", "value": "Model 7"}], **everywhere(),
    ))
    equal([p["id"] for p in models], ["item7"])

    item = await container.read_item("item2", partition_key="Widget")
    item["productModel"] = "DISCONTINUED"
    equal((await container.upsert_item(item))["productModel"], "DISCONTINUED")
    async for item in container.query_items(
        query='SELECT * FROM products p WHERE p.productModel = "DISCONTINUED"', partition_key="Widget"
    ):
        await container.delete_item(item, partition_key="Widget")
    try:
        await container.read_item("item2", partition_key="Widget")
    except CosmosResourceNotFoundError as err:
        equal(err.status_code, 404)
    else:
        raise AssertionError("a deleted item is read")
    properties = await database.read()
    equal(properties["id"], name)
    return database


async def changes(database):
    """Runs the change feed samples' steps: from the beginning, now or a time, by range, and resumed."""
    container = await database.create_container(
        id="changes", partition_key=PartitionKey(path="/pk"), offer_throughput=11_000, change_feed_policy={"retentionDuration": 10}
    )

    async def create(first, last):
        for i in range(first, last):
            await container.create_item({"id": f"item{i}", "pk": f"pk{i % 3}"})

    began = datetime.now(timezone.utc)
    await create(1, 11)
    equal(len(await listed(container.query_items_change_feed(start_time="Beginning"))), 10)
    equal(len(await listed(container.query_items_change_feed(start_time="Beginning", partition_key="pk0"))), 3)
    in_ranges = 0
    async for feed_range in container.read_feed_ranges():
        in_ranges += len(await listed(container.query_items_change_feed(feed_range=feed_range, start_time="Beginning")))
    equal(in_ranges, 10)
    assert len(await listed(container.query_items_change_feed(start_time=began))) <= 10

    equal(await listed(container.query_items_change_feed()), [])
    token = container.client_connection.last_response_headers["etag"]
    await create(11, 16)
    equal(len(await listed(container.query_items_change_feed(continuation=token))), 5)

    equal(await listed(container.query_items_change_feed(mode="AllVersionsAndDeletes")), [])
    token = container.client_connection.last_response_headers["etag"]
    await container.upsert_item({"id": "item1", "pk": "pk1", "v": 2})
    await container.delete_item("item1", "pk1")
    versions = await listed(container.query_items_change_feed(continuation=token))
    equal([c["metadata"]["operationType"] for c in versions], ["replace", "delete"])


@scenario("quickstart")
async def quickstart(run):
    async with sdk.client(SYNC, ENDPOINT, KEY) as client:
        database = await products(client)
        await changes(database)
        await client.delete_database(database)
    # The server prints this line for the SDK.
    text = f"AccountEndpoint={ENDPOINT};AccountKey={KEY};"
    async with sdk.from_connection_string(SYNC, text) as client:
        assert await listed(client.list_databases()) is not None
    if CERTIFICATE:
        await certificate_is_checked()


async def certificate_is_checked():
    """Fails unless a program that does not trust the server's certificate is refused by the SDK."""
    environment = {k: v for k, v in os.environ.items() if k not in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "suite.stranger", env=environment, stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await child.communicate()
    equal((child.returncode, out.decode().strip()), (0, "refused"), "what a stranger got")
