"""Scenarios of queries: filters, parameters, pages, and results combined from several partitions."""

from .env import equal, everywhere, ids, new_client, refused
from .scenario import scenario
from .sdk import listed

NAMES = ["apple", "Apricot", "banana", "it's", "plum", "quince"]


async def orchard(run):
    """Creates a container with 60 fruits of six keys in two partitions."""
    container = await run.container()
    fruits = []
    for n in range(60):
        fruit = {
            "id": f"{n:02}", "pk": NAMES[n % 6], "n": n, "name": NAMES[n % 6], "tags": [f"t{n % 3}"], "inner": {"x y": n % 4},
            **({"price": n / 4} if n % 2 == 0 else {}),
        }
        await container.create_item(fruit)
        fruits.append(fruit)
    return container, fruits


async def ask(container, query, **options):
    """Returns the results of a query over all partitions or, with partition_key, over one key."""
    where = {} if "partition_key" in options else everywhere()
    return await listed(container.query_items(query, **where, **options))


def matching(fruits, match):
    return ids(f for f in fruits if match(f))


@scenario("query-filter")
async def query_filter(run):
    container, fruits = await orchard(run)
    for where, match in [
        ("c.n = 7", lambda f: f["n"] == 7),
        ("c.n != 7", lambda f: f["n"] != 7),
        ("c.n < 10 AND c.n >= 4", lambda f: 4 <= f["n"] < 10),
        ("c.n <= 3 OR c.n > 55", lambda f: f["n"] <= 3 or f["n"] > 55),
        ("NOT (c.name = 'plum')", lambda f: f["name"] != "plum"),
        ("c.name IN ('plum', \"it's\")", lambda f: f["name"] in ("plum", "it's")),
        ("c.n BETWEEN 10 AND 12", lambda f: 10 <= f["n"] <= 12),
        ("IS_DEFINED(c.price)", lambda f: "price" in f),
        ("c.price > 0", lambda f: f.get("price", 0) > 0),
        ("c.price <> null", lambda f: "price" in f),
        ('c.inner["x y"] = 2', lambda f: f["inner"]["x y"] == 2),
        ("ARRAY_CONTAINS(c.tags, 't2')", lambda f: f["tags"] == ["t2"]),
        ("CONTAINS(c.name, 'an')", lambda f: "an" in f["name"]),
        ("ENDSWITH(c.name, 'e')", lambda f: f["name"].endswith("e")),
        ("c.n = '7'", lambda f: False),
        ("c.nowhere = 1 OR c.n = 1", lambda f: f["n"] == 1),
    ]:
        query = f"SELECT * FROM c WHERE {where}"
        equal(ids(await ask(container, query)), matching(fruits, match), where)
        within = await ask(container, query, partition_key="it's")
        equal(ids(within), matching(fruits, lambda f: f["pk"] == "it's" and match(f)), f"{where} within a key")
    equal(await ask(container, "select c.id as Name, c.price, c.inner['x y'] from c where c.n = 1"), [{"Name": "01", "x y": 1}])
    equal(sorted(await ask(container, "SELECT VALUE r.n FROM root r WHERE r.n < 3")), [0, 1, 2])
    equal(len(await listed(container.read_all_items())), 60)
    by_range = []
    async for feed_range in container.read_feed_ranges():
        by_range += await listed(container.query_items("SELECT * FROM c WHERE c.n < 40", feed_range=feed_range))
    equal(ids(by_range), matching(fruits, lambda f: f["n"] < 40), "by feed range")
    for wrong in ["SELEC * FROM c", "SELECT * FROM c WHERE", "SELECT * FROM c WHERE NOSUCH(c.n)"]:
        await refused(ask(container, wrong, partition_key="plum"), 400)


@scenario("query-parameters")
async def query_parameters(run):
    container = await run.container()
    values = [
        "plain", 'it\'s "quoted" \\ back', "' OR 1=1 --", "é 日本 😀", 7, -1.5, True, False, None, {"a": [1, "x"]}, [1, None],
    ]
    for n, v in enumerate(values):
        await container.create_item({"id": str(n), "pk": "p", "v": v, "n": n})
    for n, v in enumerate(values):
        for options in [{}, {"partition_key": "p"}]:
            found = await ask(
                container, "SELECT * FROM c WHERE c.v = @v AND c.n >= @low",
                parameters=[{"name": "@v", "value": v}, {"name": "@low", "value": 0}], **options,
            )
            equal(ids(found), [str(n)], f"@v = {v!r}")


@scenario("query-paging")
async def query_paging(run):
    container, fruits = await orchard(run)
    for size in [1, 7, 59, 1000]:
        found = []
        pages = container.query_items("SELECT * FROM c WHERE c.n >= 0", max_item_count=size, **everywhere()).by_page()
        async for page in pages:
            page = [item async for item in page]
            assert len(page) <= size, f"a page of {len(page)}, asked for {size}"
            found += page
        equal(ids(found), ids(fruits), f"pages of {size}")
    # A new client needs only the continuation.
    for options in [{}, {"partition_key": "plum"}]:
        found, token = [], None
        while True:
            async with new_client() as client:
                _, database, _, name = container.container_link.split("/")
                fresh = client.get_database_client(database).get_container_client(name)
                where = options or everywhere()
                pages = fresh.query_items("SELECT * FROM c", max_item_count=7, **where).by_page(token)
                async for page in pages:
                    found += [item async for item in page]
                    break
                token = pages.continuation_token
            if not token:
                break
        equal(ids(found), matching(fruits, lambda f: f["pk"] == options.get("partition_key", f["pk"])), "by continuation")
    garbled = container.query_items("SELECT * FROM c", partition_key="plum").by_page("no continuation of mine")
    await refused(anext(garbled), 400)


@scenario("query-startswith")
async def query_startswith(run):
    container, fruits = await orchard(run)
    for query, match in [
        ("SELECT * FROM c WHERE STARTSWITH(c.name, @prefix)", lambda f: f["name"].startswith("ap")),
        ("SELECT * FROM c WHERE StartsWith(c.name, @prefix, true)", lambda f: f["name"].lower().startswith("ap")),
        ("SELECT * FROM c WHERE startswith(c.name, @prefix, false)", lambda f: f["name"].startswith("ap")),
        ("SELECT * FROM c WHERE STARTSWITH(c.n, @prefix)", lambda f: False),
        ("SELECT * FROM c WHERE STARTSWITH(c.id, '')", lambda f: True),
    ]:
        found = await ask(container, query, parameters=[{"name": "@prefix", "value": "ap"}])
        equal(ids(found), matching(fruits, match), query)


@scenario("query-top")
async def query_top(run):
    container, _ = await orchard(run)
    for options in [{"partition_key": "plum"}, {}, {"max_item_count": 2}]:
        found = await ask(container, "SELECT TOP 5 * FROM c WHERE c.n >= 10", **options)
        equal((len(found), len(set(ids(found)))), (5, 5), options)
        assert all(f["n"] >= 10 for f in found)


@scenario("query-point-order")
async def query_point_order(run):
    container, _ = await orchard(run)
    for query, want in [
        ("SELECT VALUE c.n FROM c ORDER BY c.n DESC", [58, 52, 46, 40, 34, 28, 22, 16, 10, 4]),
        ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 2 LIMIT 3", [16, 22, 28]),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.n > 20", [7]),
    ]:
        equal(await ask(container, query, partition_key="plum"), want, query)
    paged = await ask(container, "SELECT VALUE c.n FROM c ORDER BY c.n", partition_key="plum", max_item_count=3)
    equal(paged, [4, 10, 16, 22, 28, 34, 40, 46, 52, 58], "in pages")
