"""Scenarios of databases, containers and their throughput."""

import os

from azure.core import MatchConditions
from azure.cosmos import PartitionKey

from .env import SYNC, autoscale, equal, ids, refused
from .scenario import scenario
from .sdk import listed


@scenario("database-lifecycle")
async def database_lifecycle(run):
    id = f"py life {os.getpid()} {'sync' if SYNC else 'async'} é"
    client = run.client
    first = await (await client.create_database_if_not_exists(id)).read()
    second = await (await client.create_database_if_not_exists(id)).read()
    equal(second["_rid"], first["_rid"])
    await refused(client.create_database(id), 409)

    equal(first["id"], id)
    assert first["_self"] and first["_etag"] and first["_ts"] > 0
    assert id in ids(await listed(client.list_databases()))
    found = await listed(
        client.query_databases("SELECT * FROM root r WHERE r.id = @id", parameters=[{"name": "@id", "value": id}])
    )
    equal(ids(found), [id])

    await client.delete_database(id)
    await refused(client.get_database_client(id).read(), 404)
    await refused(client.delete_database(id), 404)


@scenario("container-lifecycle")
async def container_lifecycle(run):
    database = await run.database()
    key = PartitionKey(path="/customer/id")
    policy = {
        "indexingMode": "consistent", "automatic": True, "includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/big/*"}],
    }
    definition = {
        "unique_key_policy": {"uniqueKeys": [{"paths": ["/number"]}]},
        "indexing_policy": policy,
        "computed_properties": [{"name": "lower", "query": "SELECT VALUE LOWER(c.name) FROM c"}],
    }
    first = await (await database.create_container_if_not_exists("orders", key, **definition)).read()
    second = await (await database.create_container_if_not_exists("orders", key, **definition)).read()
    equal(second["_rid"], first["_rid"])
    await refused(database.create_container("orders", key, **definition), 409)

    container = database.get_container_client("orders")
    read = await container.read()
    equal(read["partitionKey"]["paths"], ["/customer/id"])
    assert read["partitionKey"]["kind"] and read["partitionKey"]["version"], "kind and version are explicit"
    equal(read["uniqueKeyPolicy"]["uniqueKeys"][0]["paths"], ["/number"])
    equal(read["computedProperties"], definition["computed_properties"])
    assert "/big/*" in [p["path"] for p in read["indexingPolicy"]["excludedPaths"]]

    kept = {"indexing_policy": policy, "computed_properties": definition["computed_properties"]}
    await database.replace_container("orders", key, default_ttl=3600, **kept)
    replaced = await container.read()
    equal(replaced["defaultTtl"], 3600)
    equal(replaced["computedProperties"], definition["computed_properties"])
    await refused(database.replace_container("orders", PartitionKey(path="/other"), **kept), 400)
    await refused(
        database.replace_container("orders", key, **kept, etag=read["_etag"], match_condition=MatchConditions.IfNotModified), 412
    )

    await database.create_container("again", PartitionKey(path="/pk"))
    equal(ids(await listed(database.list_containers())), ["again", "orders"])
    equal(ids(await listed(database.query_containers("SELECT * FROM c WHERE c.id != 'orders'"))), ["again"])

    await database.delete_container("orders")
    await refused(container.read(), 404)
    await refused(database.get_container_client("orders").read_item("1", "a"), 404)
    await refused(listed(database.get_container_client("orders").query_items("SELECT * FROM c", partition_key="a")), 404)


@scenario("throughput-manual")
async def throughput_manual(run):
    container = await run.container()
    equal((await container.get_throughput()).offer_throughput, 20_000)
    equal(len(await listed(container.read_feed_ranges())), 2)
    equal((await container.replace_throughput(15_000)).offer_throughput, 15_000)
    equal((await container.get_throughput()).offer_throughput, 15_000)
    database = await run.database()
    small = await database.create_container("small", PartitionKey(path="/pk"))
    equal(len(await listed(small.read_feed_ranges())), 1)


@scenario("throughput-autoscale")
async def throughput_autoscale(run):
    container = await run.container(throughput=autoscale(4_000))
    equal((await container.get_throughput()).auto_scale_max_throughput, 4_000)
    await container.replace_throughput(autoscale(8_000))
    equal((await container.get_throughput()).auto_scale_max_throughput, 8_000)
