"""Queries over several partitions. The SDK combines the partitions' results by the server's plan."""

from .admin import split_first
from .env import equal, everywhere, ids, refused
from .queries import NAMES, ask, orchard
from .scenario import scenario
from .sdk import listed

SIZES = [None, 4, 1000]


async def in_pages(container, query, size, **options):
    """Returns the results of a query. It fails if a page is larger than size."""
    found = []
    async for page in container.query_items(query, max_item_count=size, **everywhere(), **options).by_page():
        page = [item async for item in page]
        assert size is None or len(page) <= size, f"{query}: a page of {len(page)}, asked for {size}"
        found += page
    return found


@scenario("query-order")
async def query_order(run):
    container, fruits = await orchard(run)
    for query, want in [
        ("SELECT VALUE c.n FROM c ORDER BY c.n", list(range(60))),
        ("SELECT VALUE c.n FROM c ORDER BY c.n DESC", list(range(59, -1, -1))),
        ("SELECT VALUE c.n FROM c WHERE c.n >= 10 AND c.n < 30 ORDER BY c.n DESC", list(range(29, 9, -1))),
        ("SELECT VALUE c.n FROM c ORDER BY c.name, c.n", [f["n"] for f in sorted(fruits, key=lambda f: (f["name"], f["n"]))]),
        ("SELECT VALUE c.n FROM c ORDER BY c.name ASC, c.n DESC", [f["n"] for f in sorted(fruits, key=lambda f: (f["name"], -f["n"]))]),
        ("SELECT VALUE c.id FROM c ORDER BY c.inner['x y'] DESC, c.id", [f["id"] for f in sorted(fruits, key=lambda f: (-f["inner"]["x y"], f["id"]))]),
        ("SELECT TOP 7 VALUE c.n FROM c ORDER BY c.n DESC", [59, 58, 57, 56, 55, 54, 53]),
        ("SELECT TOP 100 VALUE c.price FROM c WHERE IS_DEFINED(c.price) ORDER BY c.price", [n / 4 for n in range(0, 60, 2)]),
        ("SELECT VALUE c.n FROM c WHERE c.n > 100 ORDER BY c.n", []),
    ]:
        for size in SIZES:
            equal(await in_pages(container, query, size), want, f"{query} in pages of {size}")
    # Whole items, many with equal names: each appears once.
    found = await in_pages(container, "SELECT * FROM c ORDER BY c.name", 3)
    equal([f["name"] for f in found], sorted(f["name"] for f in fruits))
    equal(ids(found), ids(fruits))
    limited = await ask(
        container, "SELECT VALUE c.n FROM c WHERE c.n >= @low ORDER BY c.n", parameters=[{"name": "@low", "value": 57}]
    )
    equal(limited, [57, 58, 59], "with a parameter")


@scenario("query-offset")
async def query_offset(run):
    container, fruits = await orchard(run)
    for size in SIZES:
        for query, want in [
            ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 13 LIMIT 9", list(range(13, 22))),
            ("SELECT VALUE c.n FROM c ORDER BY c.n DESC OFFSET 0 LIMIT 3", [59, 58, 57]),
            ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 58 LIMIT 9", [58, 59]),
            ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 60 LIMIT 9", []),
            ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 5 LIMIT 0", []),
        ]:
            equal(await in_pages(container, query, size), want, f"{query} in pages of {size}")
        found = await in_pages(container, "SELECT * FROM c WHERE c.n < 50 OFFSET 10 LIMIT 25", size)
        equal((len(found), len(set(ids(found)))), (25, 25), f"without an order, in pages of {size}")
        assert all(f["n"] < 50 for f in found)
    parameters = [{"name": "@o", "value": 4}, {"name": "@l", "value": 2}]
    equal(await ask(container, "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET @o LIMIT @l", parameters=parameters), [4, 5])


@scenario("query-distinct")
async def query_distinct(run):
    container, _ = await orchard(run)
    for size in SIZES:
        equal(sorted(await in_pages(container, "SELECT DISTINCT VALUE c.name FROM c", size)), sorted(NAMES), f"in pages of {size}")
        names = await in_pages(container, "SELECT DISTINCT c.name FROM c WHERE c.name != 'plum'", size)
        equal(sorted(o["name"] for o in names), sorted(n for n in NAMES if n != "plum"))
        equal(await in_pages(container, "SELECT DISTINCT VALUE c.name FROM c ORDER BY c.name", size), sorted(NAMES), f"ordered, in pages of {size}")
        equal(len(await in_pages(container, "SELECT DISTINCT TOP 4 VALUE c.name FROM c", size)), 4, "TOP")
        equal(len(await in_pages(container, "SELECT DISTINCT VALUE c.name FROM c OFFSET 1 LIMIT 3", size)), 3, "OFFSET LIMIT")
    pairs = await ask(container, "SELECT DISTINCT c.tags, c.inner FROM c")
    equal(len({str(p) for p in pairs}), 12, "different pairs")
    equal(len(pairs), 12, "pairs")


@scenario("query-aggregates")
async def query_aggregates(run):
    container, _ = await orchard(run)
    for query, want in [
        ("SELECT VALUE COUNT(1) FROM c", [60]),
        ("SELECT VALUE COUNT(c.price) FROM c", [30]),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.n >= 45", [15]),
        ("SELECT VALUE SUM(c.n) FROM c", [1770]),
        ("SELECT VALUE SUM(c.price) FROM c", [217.5]),
        ("SELECT VALUE AVG(c.n) FROM c", [29.5]),
        ("SELECT VALUE AVG(c.price) FROM c WHERE c.n < 10", [1]),
        ("SELECT VALUE MIN(c.n) FROM c WHERE c.n > 33", [34]),
        ("SELECT VALUE MAX(c.price) FROM c", [14.5]),
        ("SELECT VALUE MIN(c.name) FROM c", ["Apricot"]),
        ("SELECT VALUE MAX(c.name) FROM c", ["quince"]),
        ("SELECT VALUE MAX(c.n) FROM c WHERE c.name = 'plum'", [58]),  # one of the partitions has no such item
        ("SELECT VALUE COUNT(1) FROM c WHERE c.n > 100", [0]),
        ("SELECT VALUE SUM(c.n) FROM c WHERE c.n > 100", [0]),
    ]:
        for size in SIZES:
            equal(await in_pages(container, query, size), want, f"{query} in pages of {size}")
    for name in ["MIN", "MAX", "AVG"]:
        nothing = await ask(container, f"SELECT VALUE {name}(c.n) FROM c WHERE c.n > 100")
        # Without items these are undefined. The SDK returns null for some of them.
        assert nothing in ([], [None]), f"{name} over nothing: {nothing}"


@scenario("query-join")
async def query_join(run):
    container = await run.container()
    for n in range(12):
        await container.create_item({
            "id": str(n), "pk": f"key {n}", "n": n, "children": [{"name": f"child {k}", "grade": k} for k in range(n % 4)], "list": [n, n + 1],
        })
    for size in SIZES:
        rows = await in_pages(container, "SELECT c.id, x.name FROM c JOIN x IN c.children WHERE x.grade > 0", size)
        want = [(str(n), f"child {k}") for n in range(12) for k in range(1, n % 4)]
        equal(sorted((r["id"], r["name"]) for r in rows), sorted(want), f"JOIN in pages of {size}")
        equal(sorted(await in_pages(container, "SELECT VALUE x FROM x IN c.list", size)), sorted([*range(12), *range(1, 13)]), f"IN, in pages of {size}")
        crossed = await in_pages(container, "SELECT VALUE x.grade * 10 + y FROM c JOIN x IN c.children JOIN y IN c.list WHERE c.n = 7", size)
        equal(sorted(crossed), [7, 8, 17, 18, 27, 28], f"two JOINs in pages of {size}")
    for query, want in [
        ("SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE x FROM x IN c.children WHERE x.grade = 2)", ["11", "3", "7"]),
        ("SELECT VALUE ARRAY(SELECT VALUE x.name FROM x IN c.children) FROM c WHERE c.n IN (4, 6)", [[], ["child 0", "child 1"]]),
        ("SELECT VALUE (SELECT VALUE COUNT(1) FROM x IN c.children) FROM c WHERE c.n < 4", [0, 1, 2, 3]),
        ("SELECT VALUE s FROM c JOIN (SELECT VALUE x.grade FROM x IN c.children WHERE x.grade > 1) s", [2, 2, 2]),
    ]:
        equal(sorted(await ask(container, query)), want, query)
    ordered = await ask(container, "SELECT VALUE c.n FROM c WHERE EXISTS(SELECT VALUE x FROM x IN c.children) ORDER BY c.n DESC")
    equal(ordered, [11, 10, 9, 7, 6, 5, 3, 2, 1], "EXISTS in an order")
    equal(await ask(container, "SELECT VALUE COUNT(1) FROM c JOIN x IN c.children"), [18], "the count of a JOIN")
    equal(sorted(await ask(container, "SELECT VALUE x.name FROM c JOIN x IN c.children", partition_key="key 3")), ["child 0", "child 1", "child 2"])


@scenario("query-within-key")
async def query_within_key(run):
    """For one key the server answers every query without a plan."""
    container, _ = await orchard(run)
    for query, want in [
        ("SELECT DISTINCT VALUE c.tags[0] FROM c", ["t1"]),
        ("SELECT c.inner['x y'] AS k, COUNT(1) AS many FROM c GROUP BY c.inner['x y']", [{"k": 0, "many": 5}, {"k": 2, "many": 5}]),
        ("SELECT COUNT(1) AS many, SUM(c.n) AS total, MAX(c.n) AS most FROM c", [{"many": 10, "total": 310, "most": 58}]),
        ("SELECT VALUE SUM(c.n) / COUNT(1) FROM c", [31]),
        ("SELECT VALUE {'least': MIN(c.n), 'all': [COUNT(1)]} FROM c", [{"least": 4, "all": [10]}]),
    ]:
        found = await ask(container, query, partition_key="plum")
        equal(sorted(found, key=str), want, query)


@scenario("query-prefix")
async def query_prefix(run):
    container = await run.container(["/tenant", "/user"])
    for tenant in ["t1", "t2"]:
        for n in range(20):
            await container.create_item({"id": str(n), "tenant": tenant, "user": f"u{n}", "n": n, "half": n // 2})

    async def prefixed(query, size):
        return await listed(container.query_items(query, partition_key=["t1"], max_item_count=size))

    queries = [
        ("SELECT VALUE c.n FROM c ORDER BY c.n DESC", list(range(19, -1, -1))),
        ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 3 LIMIT 4", [3, 4, 5, 6]),
        ("SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n", [0, 1, 2]),
        ("SELECT VALUE COUNT(1) FROM c", [20]),
        ("SELECT VALUE SUM(c.n) FROM c", [190]),
        ("SELECT DISTINCT VALUE c.half FROM c WHERE c.n < 6", [0, 1, 2]),
        ("SELECT c.half, COUNT(1) AS many FROM c WHERE c.n < 3 GROUP BY c.half", [{"half": 0, "many": 2}, {"half": 1, "many": 1}]),
    ]
    for size in SIZES:
        equal(sorted(await prefixed("SELECT VALUE c.n FROM c WHERE c.n < 5", size)), [0, 1, 2, 3, 4], f"in pages of {size}")
        for query, want in queries:
            equal(await prefixed(query, size), want, f"{query} in pages of {size}")
    await split_first(container)
    await listed(container.read_feed_ranges(force_refresh=True))
    for query, want in queries:
        equal(await prefixed(query, 4), want, f"{query} after a split")


@scenario("query-refused")
async def query_refused(run):
    container, _ = await orchard(run)
    for query, said in [
        ("SELECT ST_DISTANCE(c.a, c.b) FROM c", "ST_DISTANCE"),
        ("SELECT * FROM c WHERE FULLTEXTCONTAINS(c.name, 'plum')", "FULLTEXTCONTAINS"),
        ("SELECT VectorDistance(c.v, [1]) FROM c", "VECTORDISTANCE"),
        ("SELECT VALUE NOSUCH(c.n) FROM c", "NOSUCH"),
        ("SELECT VALUE udf.mine(c.n) FROM c", "UDF"),
    ]:
        for options in [{}, {"partition_key": "plum"}]:
            err = await refused(ask(container, query, **options), 400)
            assert said in err.message.upper(), f"{query}: the refusal doesn't name {said}: {err.message}"
    # The SDK cannot combine the results of these queries over several partitions.
    for query in ["SELECT c.name, COUNT(1) AS k FROM c GROUP BY c.name", "SELECT COUNT(1) AS k FROM c", "SELECT VALUE SUM(c.n) / 2 FROM c"]:
        await refused(ask(container, query), 400)


@scenario("query-split")
async def query_split(run):
    container, _ = await orchard(run)
    found = []
    pages = container.query_items("SELECT VALUE c.n FROM c", max_item_count=4, **everywhere()).by_page()
    for turn in range(100):
        if turn in (2, 5):
            await split_first(container)
        try:
            page = await anext(pages)
        except StopAsyncIteration:
            break
        found += [n async for n in page]
    equal(sorted(found), list(range(60)), "over two splits")
    # While its cache contains a partition that has split, the SDK reads the new partitions in
    # addition to the old results, so rows appear twice. After a refresh of the cache the results
    # are right.
    for query, want in [
        ("SELECT VALUE c.n FROM c ORDER BY c.n DESC", list(range(59, -1, -1))),
        ("SELECT VALUE c.n FROM c ORDER BY c.name, c.n", [n for name in sorted(NAMES) for n in range(60) if NAMES[n % 6] == name]),
        ("SELECT VALUE SUM(c.n) FROM c", [1770]),
        ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 20 LIMIT 5", [20, 21, 22, 23, 24]),
    ]:
        await split_first(container)
        await listed(container.read_feed_ranges(force_refresh=True))
        equal(await in_pages(container, query, 4), want, f"{query} after a split")
    container, fruits = await orchard(run)
    # A query of a feed range resumes from its continuation while partitions of the range split.
    # The range has two partitions from the start. For a range of one partition the SDK uses the
    # server's token. After a split it then starts from the beginning, with a warning in the log.
    first = (await listed(container.read_feed_ranges()))[0]
    want = await listed(container.query_items("SELECT * FROM c WHERE c.n >= 0", feed_range=first))
    assert 0 < len(want) < len(fruits), "the range is part of the container"
    await split_first(container)
    await listed(container.read_feed_ranges(force_refresh=True))
    found, token = [], None
    for turn in range(100):
        if turn in (2, 5):
            await split_first(container)
        pages = container.query_items("SELECT * FROM c WHERE c.n >= 0", feed_range=first, max_item_count=4).by_page(token)
        found += [fruit async for fruit in await anext(pages)]
        token = pages.continuation_token
        if not token:
            break
    equal(ids(found), ids(want), "a feed range over two splits")
    counted = await listed(container.query_items("SELECT VALUE COUNT(1) FROM c", feed_range=first))
    equal(counted, [len(want)], "the count of a feed range that is several partitions by now")
