"""Scenarios of batches, reads of many items, and the time to live."""

from azure.cosmos.exceptions import CosmosBatchOperationError

from .env import equal, ids, refused, until, upsert
from .feed import Feed
from .scenario import scenario
from .sdk import listed


def statuses(results):
    return [r["statusCode"] for r in results]


@scenario("batch-success")
async def batch_success(run):
    container = await run.container()
    await upsert(container, [{"id": id, "pk": "a/b", "v": 1} for id in ["old", "changed", "away"]])
    results = await container.execute_item_batch(
        [
            ("create", ({"id": "new", "pk": "a/b", "v": 1},)),
            ("upsert", ({"id": "old", "pk": "a/b", "v": 2},)),
            ("upsert", ({"id": "up", "pk": "a/b", "v": 1},)),
            ("read", ("new",)),
            ("replace", ("changed", {"id": "changed", "pk": "a/b", "v": 2})),
            ("patch", ("changed", [{"op": "incr", "path": "/v", "value": 10}]), {"filter_predicate": "from c where c.v = 2"}),
            ("delete", ("away",)),
        ],
        partition_key="a/b",
    )
    equal(statuses(results), [201, 200, 201, 200, 200, 200, 204])
    equal(results[3]["resourceBody"]["v"], 1)
    assert results[0]["eTag"] and results[0]["requestCharge"] > 0
    for id, v in [("new", 1), ("old", 2), ("up", 1), ("changed", 12)]:
        equal((await container.read_item(id, "a/b"))["v"], v, id)
    await refused(container.read_item("away", "a/b"), 404)


@scenario("batch-failure")
async def batch_failure(run):
    container = await run.container()
    await container.create_item({"id": "there", "pk": "p", "v": 1})
    feed = Feed(container, start_time="Beginning")
    equal(len(await feed.drain()), 1)
    for third, status in [
        (("create", ({"id": "there", "pk": "p", "v": 2},)), 409),
        (("delete", ("not there",)), 404),
        (("replace", ("there", {"id": "there", "pk": "p", "v": 2}), {"if_match_etag": '"none of its versions"'}), 412),
        (("patch", ("there", [{"op": "set", "path": "/v", "value": 9}]), {"filter_predicate": "from c where c.v = 99"}), 412),
    ]:
        try:
            await container.execute_item_batch(
                [
                    ("create", ({"id": "b1", "pk": "p", "v": 1},)),
                    ("upsert", ({"id": "there", "pk": "p", "v": 5},)),
                    third,
                    ("upsert", ({"id": "b2", "pk": "p", "v": 1},)),
                ],
                partition_key="p",
            )
        except CosmosBatchOperationError as err:
            equal(err.error_index, 2)
            equal(statuses(err.operation_responses), [424, 424, status, 424])
        else:
            raise AssertionError(f"a batch with {third[0]} that fails is not refused")
    await refused(container.read_item("b1", "p"), 404)
    await refused(container.read_item("b2", "p"), 404)
    equal((await container.read_item("there", "p"))["v"], 1)
    equal(await feed.drain(), [])


@scenario("read-many")
async def read_many(run):
    container = await run.container()
    await upsert(container, [{"id": str(n), "pk": f"key {n % 10}", "v": n} for n in range(60)])
    wanted = [("0", "key 0"), ("1", "key 1"), ("13", "key 3"), ("59", "key 9"), ("59", "key 1"), ("nowhere", "key 1")]
    equal(ids(await container.read_items(wanted)), ["0", "1", "13", "59"])
    equal(len(await container.read_items([(str(n), f"key {n % 10}") for n in range(60)])), 60)


@scenario("ttl")
async def ttl(run):
    container = await run.container(default_ttl=2)
    await container.create_item({"id": "own", "pk": "p", "ttl": 1})
    await container.create_item({"id": "default", "pk": "p"})
    await container.create_item({"id": "stays", "pk": "p", "ttl": -1})

    async def left():
        return ids(await listed(container.query_items("SELECT * FROM c", partition_key="p")))

    async def expired():
        return await left() == ["stays"]

    await until("both items expired", expired)
    await refused(container.read_item("own", "p"), 404)
    await refused(container.read_item("default", "p"), 404)
    equal((await container.read_item("stays", "p"))["id"], "stays")
    equal(ids(await Feed(container, start_time="Beginning").drain()), ["stays"])
    await container.create_item({"id": "own", "pk": "p", "ttl": 3600})
    equal(await left(), ["own", "stays"])
    await refused(container.create_item({"id": "zero", "pk": "p", "ttl": 0}), 400)
