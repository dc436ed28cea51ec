"""Scenarios of items: ids and keys of every kind, hierarchical keys, ETags and patches."""

import asyncio

from azure.core import MatchConditions
from azure.cosmos.exceptions import CosmosHttpResponseError
from azure.cosmos.partition_key import NonePartitionKeyValue

from .env import equal, everywhere, refused
from .scenario import scenario
from .sdk import listed


async def every_operation(container, id, key, properties):
    """Writes, reads, replaces and deletes an item with an id and a key."""

    def body(v):
        return {"id": id, **properties, "v": v}

    async def current(want):
        read = await container.read_item(id, key)
        equal((read["id"], read["v"]), (id, want), "the item")

    equal((await container.create_item(body(1)))["id"], id)
    await current(1)
    await refused(container.create_item(body(1)), 409)
    equal((await container.replace_item(id, body(2)))["v"], 2)
    await current(2)
    equal((await container.upsert_item(body(3)))["v"], 3)
    await current(3)
    equal((await container.patch_item(id, key, [{"op": "incr", "path": "/v", "value": 1}]))["v"], 4)
    await container.delete_item(id, key)
    await refused(container.read_item(id, key), 404)
    await refused(container.replace_item(id, body(5)), 404)
    await refused(container.delete_item(id, key), 404)


@scenario("items-ids")
async def items_ids(run):
    container = await run.container()
    for id in [
        "plain", "with spaces", "o 1+%é", "100%", "%20", "a+b&c=d;e,f", "it's", 'say "hi"', "日本", "😀", "(brackets)[x]{y}", "a:b@c$d!e*f", "~-_.", "..a",
        "a|b^c`d<e>", "x" * 255, "ü" + "é" * 100,
    ]:
        await every_operation(container, id, "p", {"pk": "p"})
    made = await container.create_item({"pk": "p"}, enable_automatic_id_generation=True)
    assert len(made["id"]) > 10, "an id is made"


@scenario("items-keys")
async def items_keys(run):
    container = await run.container()
    for key in [
        "a/b/c", 'he said "no"', "back\\slash", "Привет é 日本", "😀", "a\0b", "", " ", "null", "k" * 500,
        0, -12.5, 1e21, 9007199254740991, True, False, None,
    ]:
        await every_operation(container, "same id", key, {"pk": key})
    await every_operation(container, "same id", NonePartitionKeyValue, {})

    await container.create_item({"id": "1", "pk": "left", "v": 1})
    await container.create_item({"id": "1", "pk": "right", "v": 2})
    equal((await container.read_item("1", "left"))["v"], 1)
    equal((await container.read_item("1", "right"))["v"], 2)
    await refused(container.read_item("1", "middle"), 404)
    await refused(container.replace_item("1", {"id": "1", "pk": "middle"}), 404)


@scenario("items-hierarchical")
async def items_hierarchical(run):
    container = await run.container(["/tenant", "/user", "/session"])
    for tenant in ["t/1", "t2"]:
        for user in ["ü", "u2"]:
            for session in [0, 1, 2]:
                properties = {"tenant": tenant, "user": user, "session": session}
                await every_operation(container, "1", [tenant, user, session], properties)
                await container.create_item({"id": "2", **properties})
    for key, want in [(["t/1", "ü", 2], 1), (["t/1", "ü"], 3), (["t2"], 6), (["t4"], 0)]:
        equal(len(await listed(container.query_items("SELECT * FROM c", partition_key=key))), want, key)
    equal(len(await listed(container.query_items("SELECT * FROM c", **everywhere()))), 12, "all")


@scenario("etag-races")
async def etag_races(run):
    container = await run.container()
    await container.create_item({"id": "1", "pk": "p", "v": 0})

    def unmodified(etag):
        return {"etag": etag, "match_condition": MatchConditions.IfNotModified}

    def modified(etag):
        return {"etag": etag, "match_condition": MatchConditions.IfModified}

    for turn in range(1, 21):
        etag = (await container.read_item("1", "p"))["_etag"]
        results = await asyncio.gather(
            *(container.replace_item("1", {"id": "1", "pk": "p", "v": turn * 4 + w}, **unmodified(etag)) for w in range(4)),
            return_exceptions=True,
        )
        won = [w for w, r in enumerate(results) if not isinstance(r, Exception)]
        equal(len(won), 1, f"turn {turn}: writers that won")
        for r in results:
            if isinstance(r, Exception):
                assert isinstance(r, CosmosHttpResponseError) and r.status_code == 412, repr(r)
        after = await container.read_item("1", "p")
        equal(after["v"], turn * 4 + won[0])
        assert after["_etag"] != etag
        assert not await container.read_item("1", "p", **modified(after["_etag"])), "read, though it has not changed"
        equal((await container.read_item("1", "p", **modified(etag)))["v"], after["v"])
        await refused(container.delete_item("1", "p", **unmodified(etag)), 412)
        await refused(container.upsert_item({"id": "1", "pk": "p", "v": -1}, **unmodified(etag)), 412)
    await container.replace_item("1", {"id": "1", "pk": "p", "v": 7}, match_condition=MatchConditions.IfPresent)


@scenario("patch")
async def patch(run):
    container = await run.container()
    await container.create_item(
        {"id": "1", "pk": "p", "n": 1, "gone": True, "list": ["a", "c"], "deep": {"x": 1}, "from": "here"}
    )
    patched = await container.patch_item(
        "1", "p", filter_predicate="from c where c.n = 1",
        patch_operations=[
            {"op": "add", "path": "/added", "value": {"k": "v"}},
            {"op": "add", "path": "/list/1", "value": "b"},
            {"op": "add", "path": "/list/-", "value": "d"},
            {"op": "set", "path": "/deep/y", "value": 2},
            {"op": "replace", "path": "/deep/x", "value": "one"},
            {"op": "remove", "path": "/gone"},
            {"op": "incr", "path": "/n", "value": 41.5},
            {"op": "incr", "path": "/fresh", "value": -3},
            {"op": "move", "from": "/from", "path": "/deep/to"},
        ],
    )
    want = {
        "added": {"k": "v"}, "list": ["a", "b", "c", "d"], "deep": {"x": "one", "y": 2, "to": "here"}, "gone": None,
        "from": None, "n": 42.5, "fresh": -3,
    }
    for name, value in want.items():
        equal(patched.get(name), value, name)
    before = await container.read_item("1", "p")
    equal(dict(before), dict(patched), "the item as read")

    async def unchanged(operations, status, **more):
        await refused(container.patch_item("1", "p", operations, **more), status)
        equal(dict(await container.read_item("1", "p")), dict(before), "the item after a refused patch")

    zero = {"op": "set", "path": "/n", "value": 0}
    await unchanged([zero], 412, filter_predicate="from c where c.n = 1")
    await unchanged([zero, {"op": "replace", "path": "/nowhere", "value": 1}], 400)
    await unchanged([zero, {"op": "remove", "path": "/nowhere"}], 400)
    await unchanged([zero, {"op": "move", "from": "/nowhere", "path": "/there"}], 400)
    await unchanged([{"op": "set", "path": "/id", "value": "2"}], 400)
    await unchanged([{"op": "set", "path": "/pk", "value": "q"}], 400)
    await unchanged([{"op": "incr", "path": "/n", "value": 1}] * 11, 400)
    await refused(container.patch_item("not there", "p", [zero]), 404)
