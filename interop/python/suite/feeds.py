"""Scenarios of the change feed, with each kind of start and selection."""

from datetime import datetime, timedelta, timezone

from .env import equal, ids, refused, spread, until, upsert
from .feed import Feed, in_new_process, latest
from .scenario import scenario
from .sdk import listed


async def next_second(container):
    """Waits until the server stamps its writes with a later second. It returns the second before."""

    async def stamp():
        return (await container.upsert_item({"id": "clock", "pk": "clock", "v": 0}))["_ts"]

    began = await stamp()

    async def later():
        return await stamp() > began

    await until("the next second", later)
    return datetime.fromtimestamp(began, timezone.utc)


@scenario("feed-beginning")
async def feed_beginning(run):
    container = await run.container()
    equal(await Feed(container, start_time="Beginning").drain(), [])
    await upsert(container, spread(40, 1))
    await upsert(container, spread(10, 2))
    feed = Feed(container, start_time="Beginning")
    everything = await feed.drain()
    equal(len(everything), 40)
    equal(latest(everything), latest(spread(40, 1) + spread(10, 2)))
    assert all(i["_lsn"] > 0 and i["_ts"] > 0 and i["_etag"] and i["_rid"] for i in everything)
    order = {}
    for i in everything:
        n = int(i["id"]) + (100 if int(i["id"]) < 10 else 0)
        assert n >= order.get(i["pk"], 0), f"{i['pk']}: {i['id']} out of order"
        order[i["pk"]] = n
    await upsert(container, spread(5, 3))
    equal(latest(await feed.drain()), latest(spread(5, 3)))
    equal(await feed.drain(), [])


@scenario("feed-now")
async def feed_now(run):
    container = await run.container()
    await upsert(container, spread(20, 1))
    for start, want in [
        ({"start_time": "Now"}, 10),
        ({"start_time": "Now", "partition_key": "key 3"}, 1),
        ({}, 10),  # the SDK's default is now
    ]:
        feed = Feed(container, **start)
        equal(await feed.drain(), [])
        await upsert(container, spread(10, 2))
        equal(len(await feed.drain()), want, start)
        await upsert(container, spread(10, 3))
        assert all(i["v"] == 3 for i in await feed.drain())


@scenario("feed-time")
async def feed_time(run):
    container = await run.container()
    await upsert(container, spread(20, 1))
    start = await next_second(container)
    await upsert(container, spread(7, 2))
    # One pager reads everything. The SDK cannot read its own continuation of a start at a time,
    # because it takes the milliseconds in it for seconds.
    got = latest(await Feed(container, max_item_count=3, start_time=start).drain())
    got.pop("clock/clock", None)
    equal(got, latest(spread(7, 2)))
    long_ago = datetime.now(timezone.utc) - timedelta(days=10)
    equal(len(await Feed(container, start_time=long_ago).drain()), 21)


@scenario("feed-pages")
async def feed_pages(run):
    container = await run.container()
    await upsert(container, spread(30, 1))
    await container.execute_item_batch(
        [("create", ({"id": f"batch {n}", "pk": "key 3", "v": 1},)) for n in range(12)], partition_key="key 3"
    )
    for size in [1, 7, 100]:
        feed = Feed(container, max_item_count=size, start_time="Beginning")
        total = 0
        while items := await feed.page():
            batch = sum(i["id"].startswith("batch") for i in items)
            assert batch in (0, 12), f"pages of {size}: {batch} of the batch's 12 items in one page"
            assert batch or len(items) <= size
            total += len(items)
        equal(total, 42, f"items in pages of {size}")


@scenario("feed-range")
async def feed_range(run):
    container = await run.container()
    await upsert(container, spread(40, 1))
    ranges = await listed(container.read_feed_ranges())
    equal(len(ranges), 2)
    parts = [await Feed(container, max_item_count=3, feed_range=r, start_time="Beginning").drain() for r in ranges]
    assert all(parts), "a range without items"
    equal(len(parts[0]) + len(parts[1]), 40)
    first = {i["pk"] for i in parts[0]}
    assert not any(i["pk"] in first for i in parts[1]), "a key in both ranges"
    for n, (part, whole) in enumerate(zip(parts, ranges)):
        one = await container.feed_range_from_partition_key(part[0]["pk"])
        assert await container.is_feed_range_subset(whole, one), "a key's range outside of its partition's"
        assert not await container.is_feed_range_subset(ranges[1 - n], one), "a key's range in another partition's"
        got = await Feed(container, feed_range=one, start_time="Beginning").drain()
        equal({i["pk"] for i in got}, {part[0]["pk"]}, "the keys in a key's range")


@scenario("feed-key")
async def feed_key(run):
    container = await run.container()
    await upsert(container, spread(40, 1))
    for n in range(10):
        feed = Feed(container, max_item_count=3, partition_key=f"key {n}", start_time="Beginning")
        equal([(i["id"], i["pk"]) for i in await feed.drain()], [(str(n + k), f"key {n}") for k in (0, 10, 20, 30)])
        await upsert(container, [{"id": "more", "pk": f"key {n}", "v": 9}, {"id": "more", "pk": "another", "v": n}])
        equal([i["pk"] for i in await feed.drain()], [f"key {n}"])
    for key in ['é/"日本"', 7, True]:
        await container.create_item({"id": "1", "pk": key})
        equal([i["pk"] for i in await Feed(container, partition_key=key, start_time="Beginning").drain()], [key])
    # For a key that Python takes for false, the SDK reads the whole container. The key's feed range
    # works.
    for key in [0, "", False, None]:
        await container.create_item({"id": "1", "pk": key})
        one = await container.feed_range_from_partition_key(key)
        equal([i["pk"] for i in await Feed(container, feed_range=one, start_time="Beginning").drain()], [key])


@scenario("feed-prefix")
async def feed_prefix(run):
    container = await run.container(["/tenant", "/user"])
    for tenant in ["t1", "t2", "t3"]:
        await upsert(container, [{"id": "1", "tenant": tenant, "user": str(user), "v": 1} for user in range(8)])
    for tenant in ["t1", "t2", "t3"]:
        changes = await Feed(container, max_item_count=3, partition_key=[tenant], start_time="Beginning").drain()
        equal(len(changes), 8)
        assert all(i["tenant"] == tenant for i in changes)
        equal(len(await Feed(container, partition_key=[tenant, "5"], start_time="Beginning").drain()), 1)


@scenario("feed-versions")
async def feed_versions(run):
    container = await run.container(default_ttl=-1, change_feed_policy={"retentionDuration": 5})
    equal((await container.read())["changeFeedPolicy"]["retentionDuration"], 5)
    await container.create_item({"id": "before", "pk": "p", "v": 0})
    feed = Feed(container, max_item_count=2, start_time="Now", mode="AllVersionsAndDeletes")
    equal(await feed.drain(), [])
    await container.create_item({"id": "1", "pk": "p", "v": 1})
    await container.replace_item("1", {"id": "1", "pk": "p", "v": 2})
    await container.upsert_item({"id": "1", "pk": "p", "v": 3})
    await container.patch_item("1", "p", [{"op": "incr", "path": "/v", "value": 1}])
    await container.delete_item("1", "p")
    await container.upsert_item({"id": "1", "pk": "p", "v": 6})
    await container.create_item({"id": "short", "pk": "q", "ttl": 1})
    changes = await feed.drain()
    ours = [c for c in changes if c.get("current", {}).get("id") == "1" or c["metadata"].get("id") == "1"]
    equal([c["metadata"]["operationType"] for c in ours], ["create", "replace", "replace", "replace", "delete", "create"])
    equal([c.get("current", {}).get("v") for c in ours], [1, 2, 3, 4, None, 6])
    removed = ours[4]["metadata"]
    equal((removed["id"], removed["partitionKey"]), ("1", {"pk": "p"}))
    assert all(c["metadata"]["lsn"] > 0 and c["metadata"]["crts"] > 0 for c in ours)
    lsns = [c["metadata"]["lsn"] for c in ours]
    equal(lsns, sorted(lsns))
    expired = [c for c in changes if c["metadata"].get("timeToLiveExpired")]

    async def seen():
        expired.extend(await feed.drain())
        return expired

    await until("the expiry in the feed", seen)
    equal(
        [(c["metadata"]["operationType"], c["metadata"]["timeToLiveExpired"], c["metadata"]["id"]) for c in expired],
        [("delete", True, "short")],
    )
    for start in ["Beginning", datetime.now(timezone.utc)]:
        try:
            await Feed(container, start_time=start, mode="AllVersionsAndDeletes").drain()
        except ValueError as err:  # the SDK refuses it without a request
            assert "start_time" in str(err), err
        else:
            raise AssertionError(f"all versions and deletes from {start} is not refused")


@scenario("feed-resume")
async def feed_resume(run):
    container = await run.container()
    await upsert(container, spread(40, 1))
    feed = Feed(container, max_item_count=4, start_time="Beginning")
    everything = await feed.page() + await feed.page()
    await upsert(container, [{"id": "late", "pk": "key 1", "v": 1}, {"id": "late", "pk": "key 2", "v": 1}])
    everything += await in_new_process(container, feed.continuation)
    equal(len(everything), 42)
    equal(len(latest(everything)), 42)
