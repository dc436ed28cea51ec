"""A partition splits, or two merge, in the middle of each kind of read, while a writer continues."""

import asyncio

from .admin import merge_first, split_first
from .env import equal, spread, upsert
from .feed import Feed, in_new_process, latest
from .feeds import next_second
from .scenario import scenario
from .sdk import listed


class Reader:
    """A kind of read.

    start returns the start, wants reports whether the read must deliver an item, and old reports
    whether it must deliver earlier writes.
    """

    def __init__(self, start, old=False, size=5, wants=lambda item: True, finish=None, versions=False):
        self.start, self.old, self.size, self.wants, self.finish, self.versions = start, old, size, wants, finish, versions


async def from_time(container, reader):
    return {"start_time": await next_second(container)}


async def from_range(container, reader):
    first = (await listed(container.read_feed_ranges()))[0]
    start = {"feed_range": first, "start_time": "Beginning"}
    mine = {i["pk"] for i in await Feed(container, **start).drain()}
    reader.wants = lambda item: item["pk"] in mine
    return start


def at(**start):
    async def given(container, reader):
        return start

    return given


READERS = {
    "beginning": lambda: Reader(at(start_time="Beginning"), old=True),
    "now": lambda: Reader(at(start_time="Now")),
    # The SDK cannot read its own continuation of a start at a time. The pages are so small that no
    # page is empty, and so no continuation is needed, before the end.
    "time": lambda: Reader(from_time, size=3),
    "pages": lambda: Reader(at(start_time="Beginning"), old=True, size=1),
    "range": lambda: Reader(from_range, old=True),
    "key": lambda: Reader(
        at(start_time="Beginning", partition_key="key 4"), old=True, size=1, wants=lambda item: item["pk"] == "key 4"
    ),
    "versions": lambda: Reader(at(start_time="Now", mode="AllVersionsAndDeletes"), versions=True),
    "resume": lambda: Reader(at(start_time="Beginning"), old=True, finish=in_new_process),
}


async def write_on(container, during, changed):
    """Writes items with rising versions. It ends after 40 more writes when the partitions have changed."""
    more, v = 40, 10
    while more > 0:
        if changed.is_set():
            more -= 1
        item = {"id": str(v % 13), "pk": f"key {v % 10}", "v": v}
        await container.upsert_item(item)
        during.append(item)
        v += 1


def judge_latest(got, everything):
    """Fails if a last version is missing, an older version follows a newer one, or a version arrives twice."""
    seen = latest(got)
    seen.pop("clock/clock", None)
    equal(seen, {f"{i['pk']}/{i['id']}": i["v"] for i in everything})
    names = [f"{i['pk']}/{i['id']} version {i['v']}" for i in got if i["pk"] != "clock"]
    equal(len(names), len(set(names)), "versions, and different ones")


def judge_versions(got, everything):
    """Fails unless every version arrives once and in order."""
    got = [c["current"] for c in got]
    equal(sorted(f"{i['pk']}/{i['id']}/{i['v']}" for i in got), sorted(f"{i['pk']}/{i['id']}/{i['v']}" for i in everything))
    latest(got)


async def survives(run, reader, change):
    reader = reader()
    container = await run.container(**({"change_feed_policy": {"retentionDuration": 5}} if reader.versions else {}))
    written = spread(60, 1)
    await upsert(container, written)
    feed = Feed(container, max_item_count=reader.size, **await reader.start(container, reader))
    got = []
    if not reader.old:
        got += await feed.page()  # the first read determines what "now" is
        written = spread(20, 2)
        await upsert(container, written)
    got += await feed.page() + await feed.page()

    during, changed = [], asyncio.Event()
    # The writer needs a client of its own, because the feed's continuation is in the headers of its
    # client's last answer.
    writer = asyncio.create_task(write_on(await run.another(container), during, changed))
    try:
        got += await feed.page()
        await change(container)
        got += await feed.page()
    finally:
        changed.set()
        await writer
    got += await feed.page()
    got += await reader.finish(container, feed.continuation) if reader.finish else await feed.drain()
    (judge_versions if reader.versions else judge_latest)(got, [i for i in written + during if reader.wants(i)])


async def prefix_survives(run, change):
    """Does the same as survives for a prefix of a hierarchical key."""
    container = await run.container(["/tenant", "/user"])

    async def write(v):
        await upsert(container, [{"id": "1", "tenant": t, "user": str(u), "v": v} for u in range(20) for t in ("t1", "t2")])

    await write(1)
    feed = Feed(container, max_item_count=3, partition_key=["t1"], start_time="Beginning")
    got = await feed.page() + await feed.page()
    await change(container)
    got += await feed.page()
    continuation = feed.continuation
    await write(2)
    feed = Feed(container, continuation=continuation)
    got += await feed.drain()
    assert all(i["tenant"] == "t1" for i in got)
    seen = latest([{"id": i["user"], "pk": "t1", "v": i["v"]} for i in got])
    equal(seen, {f"t1/{u}": 2 for u in range(20)})


for _change, _do in [("split", split_first), ("merge", merge_first)]:
    for _name, _reader in READERS.items():
        scenario(f"{_change}-{_name}", _reader, _do)(survives)
    scenario(f"{_change}-prefix", _do)(prefix_survives)
