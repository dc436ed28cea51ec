// Queries over several partitions. The SDK combines the partitions' results by the server's plan.
// It requests the plan first (forceQueryPlan), or after the server has refused the query.
import assert from "node:assert/strict";

import { CosmosClient, PartitionKeyKind } from "@azure/cosmos";

import { splitFirst } from "../lib/admin.js";
import { endpoint, key, newContainer, refused } from "../lib/env.js";
import { ids, names, orchard } from "../lib/orchard.js";
import { scenario } from "../lib/scenario.js";

const sizes = [undefined, 4, 1000];

/** The options that change how the SDK queries. */
const ways = [{}, { forceQueryPlan: true }, { forceQueryPlan: true, enableQueryControl: true }];

/** Returns the results of a query. It fails if a page is larger than requested. */
async function inPages(container, query, options) {
  const iterator = container.items.query(query, options);
  const found = [];
  while (iterator.hasMoreResults()) {
    const { resources } = await iterator.fetchNext();
    const most = options.maxItemCount ?? Infinity;
    assert.ok((resources ?? []).length <= most, `${JSON.stringify(query)}: a page of ${resources?.length}, asked for ${most}`);
    found.push(...(resources ?? []));
  }
  return found;
}

/** Runs a query in each way and with each page size, and passes the results to judge. */
async function everyWay(container, query, judge) {
  for (const way of ways) {
    for (const maxItemCount of sizes) {
      const options = { ...way, ...(maxItemCount && { maxItemCount }) };
      judge(await inPages(container, query, options), `${JSON.stringify(query)} with ${JSON.stringify(options)}`);
    }
  }
}

const is = (want) => (got, what) => assert.deepEqual(got, want, what);
const has = (want) => (got, what) => assert.deepEqual([...got].sort(order), [...want].sort(order), what);
const order = (a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1);
const upTo = (n) => Array.from({ length: n }, (_, i) => i);
const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

scenario("query-order", async (t) => {
  const { container, all } = await orchard(t);
  const by = (...keys) => [...all].sort((a, b) => keys.reduce((r, k) => r || compare(...k(a, b)), 0)).map((f) => f.n);
  for (const [query, want] of [
    ["SELECT VALUE c.n FROM c ORDER BY c.n", upTo(60)],
    ["SELECT VALUE c.n FROM c ORDER BY c.n DESC", upTo(60).reverse()],
    ["SELECT VALUE c.n FROM c WHERE c.n >= 10 AND c.n < 30 ORDER BY c.n DESC", upTo(30).slice(10).reverse()],
    ["SELECT VALUE c.n FROM c ORDER BY c.name, c.n", by((a, b) => [a.name, b.name], (a, b) => [a.n, b.n])],
    ["SELECT VALUE c.n FROM c ORDER BY c.name ASC, c.n DESC", by((a, b) => [a.name, b.name], (a, b) => [b.n, a.n])],
    ["SELECT VALUE c.n FROM c ORDER BY c.inner['x y'] DESC, c.id", by((a, b) => [b.inner["x y"], a.inner["x y"]], (a, b) => [a.id, b.id])],
    ["SELECT TOP 7 VALUE c.n FROM c ORDER BY c.n DESC", [59, 58, 57, 56, 55, 54, 53]],
    ["SELECT TOP 100 VALUE c.price FROM c WHERE IS_DEFINED(c.price) ORDER BY c.price", upTo(30).map((n) => n / 2)],
    ["SELECT VALUE c.n FROM c WHERE c.n > 100 ORDER BY c.n", []],
    [{ query: "SELECT VALUE c.n FROM c WHERE c.n >= @low ORDER BY c.n", parameters: [{ name: "@low", value: 57 }] }, [57, 58, 59]],
  ]) {
    await everyWay(container, query, is(want));
  }
  // Whole items, many with equal names: each appears once.
  await everyWay(container, "SELECT * FROM c ORDER BY c.name", (found, what) => {
    assert.deepEqual(found.map((f) => f.name), all.map((f) => f.name).sort(), what);
    assert.deepEqual(ids(found), ids(all), what);
  });
});

scenario("query-offset", async (t) => {
  const { container } = await orchard(t);
  for (const [query, want] of [
    ["SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 13 LIMIT 9", upTo(22).slice(13)],
    ["SELECT VALUE c.n FROM c ORDER BY c.n DESC OFFSET 0 LIMIT 3", [59, 58, 57]],
    ["SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 58 LIMIT 9", [58, 59]],
    ["SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 60 LIMIT 9", []],
    ["SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 5 LIMIT 0", []],
    [{ query: "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET @o LIMIT @l", parameters: [{ name: "@o", value: 4 }, { name: "@l", value: 2 }] }, [4, 5]],
  ]) {
    await everyWay(container, query, is(want));
  }
  await everyWay(container, "SELECT * FROM c WHERE c.n < 50 OFFSET 10 LIMIT 25", (found, what) => {
    assert.equal(found.length, 25, what);
    assert.equal(new Set(ids(found)).size, 25, what);
    assert.ok(found.every((f) => f.n < 50), what);
  });
});

scenario("query-distinct", async (t) => {
  const { container } = await orchard(t);
  await everyWay(container, "SELECT DISTINCT VALUE c.name FROM c", has(names));
  await everyWay(container, "SELECT DISTINCT c.name FROM c WHERE c.name != 'plum'", has(names.filter((n) => n !== "plum").map((name) => ({ name }))));
  await everyWay(container, "SELECT DISTINCT TOP 4 VALUE c.name FROM c", (found, what) => assert.equal(new Set(found).size, 4, what));
  await everyWay(container, "SELECT DISTINCT VALUE c.name FROM c OFFSET 1 LIMIT 3", (found, what) => assert.equal(new Set(found).size, 3, what));
  await everyWay(container, "SELECT DISTINCT c.tags, c.inner FROM c", (found, what) => {
    assert.equal(found.length, 12, what);
    assert.equal(new Set(found.map((f) => JSON.stringify(f))).size, 12, what);
  });
  // With pages smaller than a run of equal values, the SDK makes no progress in an ordered
  // DISTINCT. So the pages are large.
  for (const way of ways) is([...names].sort())(await inPages(container, "SELECT DISTINCT VALUE c.name FROM c ORDER BY c.name", { ...way, maxItemCount: 1000 }));
});

scenario("query-aggregates", async (t) => {
  const { container } = await orchard(t);
  for (const [query, want] of [
    ["SELECT VALUE COUNT(1) FROM c", [60]],
    ["SELECT VALUE COUNT(c.price) FROM c", [30]],
    ["SELECT VALUE COUNT(1) FROM c WHERE c.n >= 45", [15]],
    ["SELECT VALUE SUM(c.n) FROM c", [1770]],
    ["SELECT VALUE SUM(c.price) FROM c", [217.5]],
    ["SELECT VALUE AVG(c.n) FROM c", [29.5]],
    ["SELECT VALUE AVG(c.price) FROM c WHERE c.n < 10", [1]],
    ["SELECT VALUE MIN(c.n) FROM c WHERE c.n > 33", [34]],
    ["SELECT VALUE MAX(c.price) FROM c", [14.5]],
    ["SELECT VALUE MIN(c.name) FROM c", ["Apricot"]],
    ["SELECT VALUE MAX(c.n) FROM c WHERE c.name = 'plum'", [58]], // one of the partitions has no such item
    ["SELECT VALUE COUNT(1) FROM c WHERE c.n > 100", [0]],
    ["SELECT VALUE SUM(c.n) FROM c WHERE c.n > 100", [0]],
    ["SELECT VALUE AVG(c.n) FROM c WHERE c.n > 100", []],
    ["SELECT VALUE MIN(c.n) FROM c WHERE c.n > 100", []],
    ["SELECT VALUE SUM(c.name) FROM c", []],
  ]) {
    await everyWay(container, query, is(want));
  }
});

scenario("query-aggregates-named", async (t) => {
  const { container } = await orchard(t);
  await everyWay(
    container, "SELECT COUNT(1) AS many, SUM(c.n), AVG(c.n) AS mean, MIN(c.name) AS least, MAX(c.price) AS most FROM c",
    is([{ many: 60, $1: 1770, mean: 29.5, least: "Apricot", most: 14.5 }]),
  );
  // The SDK returns undefined results as members, which JSON removes.
  await everyWay(container, "SELECT COUNT(1) AS many, MAX(c.n) AS most FROM c WHERE c.n > 100", (found, what) => is([{ many: 0 }])(JSON.parse(JSON.stringify(found)), what));
});

scenario("query-group", async (t) => {
  const { container, all } = await orchard(t);
  const groups = names.map((name, i) => {
    const mine = all.filter((f) => f.name === name);
    const sum = mine.reduce((s, f) => s + f.n, 0);
    return { name, many: 10, total: sum, mean: sum / 10, least: i, most: 54 + i };
  });
  await everyWay(
    container, "SELECT c.name, COUNT(1) AS many, SUM(c.n) AS total, AVG(c.n) AS mean, MIN(c.n) AS least, MAX(c.n) AS most FROM c GROUP BY c.name", has(groups),
  );
  const pairs = new Set(all.map((f) => JSON.stringify({ name: f.name, k: f.inner["x y"] })));
  await everyWay(container, "SELECT c.name, c.inner['x y'] AS k FROM c GROUP BY c.name, c.inner['x y']", has([...pairs].map((p) => JSON.parse(p))));
  await everyWay(
    container, "SELECT UPPER(c.name) AS name, COUNT(c.price) AS many FROM c WHERE c.n < 12 GROUP BY UPPER(c.name)",
    has(names.map((n, i) => ({ name: n.toUpperCase(), many: i % 2 === 0 ? 2 : 0 }))),
  );
  await everyWay(container, "SELECT c.name, COUNT(1) AS many FROM c WHERE c.n > 100 GROUP BY c.name", is([]));
});

scenario("query-join", async (t) => {
  const container = await newContainer(t);
  for (const n of upTo(12)) {
    await container.items.create({ id: String(n), pk: `key ${n}`, n, children: upTo(n % 4).map((k) => ({ name: `child ${k}`, grade: k })), list: [n, n + 1] });
  }
  await everyWay(
    container, "SELECT c.id, x.name FROM c JOIN x IN c.children WHERE x.grade > 0",
    has(upTo(12).flatMap((n) => upTo(n % 4).slice(1).map((k) => ({ id: String(n), name: `child ${k}` })))),
  );
  await everyWay(container, "SELECT VALUE x FROM x IN c.list", has(upTo(12).flatMap((n) => [n, n + 1])));
  await everyWay(container, "SELECT VALUE x.grade * 10 + y FROM c JOIN x IN c.children JOIN y IN c.list WHERE c.n = 7", has([7, 8, 17, 18, 27, 28]));
  for (const [query, want] of [
    ["SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE x FROM x IN c.children WHERE x.grade = 2)", ["11", "3", "7"]],
    ["SELECT VALUE ARRAY(SELECT VALUE x.name FROM x IN c.children) FROM c WHERE c.n IN (4, 6)", [[], ["child 0", "child 1"]]],
    ["SELECT VALUE (SELECT VALUE COUNT(1) FROM x IN c.children) FROM c WHERE c.n < 4", [0, 1, 2, 3]],
    ["SELECT VALUE s FROM c JOIN (SELECT VALUE x.grade FROM x IN c.children WHERE x.grade > 1) s", [2, 2, 2]],
    ["SELECT VALUE COUNT(1) FROM c JOIN x IN c.children", [18]],
  ]) {
    await everyWay(container, query, has(want));
  }
  await everyWay(container, "SELECT VALUE c.n FROM c WHERE EXISTS(SELECT VALUE x FROM x IN c.children) ORDER BY c.n DESC", is([11, 10, 9, 7, 6, 5, 3, 2, 1]));
  has(["child 0", "child 1", "child 2"])(await inPages(container, "SELECT VALUE x.name FROM c JOIN x IN c.children", { partitionKey: "key 3" }));
});

scenario("query-within-key", async (t) => {
  // For one key the server answers every query without a plan.
  const { container } = await orchard(t);
  for (const [query, want] of [
    ["SELECT DISTINCT VALUE c.tags[0] FROM c", ["t1"]],
    ["SELECT c.inner['x y'] AS k, COUNT(1) AS many FROM c GROUP BY c.inner['x y']", [{ k: 0, many: 5 }, { k: 2, many: 5 }]],
    ["SELECT COUNT(1) AS many, SUM(c.n) AS total, MAX(c.n) AS most FROM c", [{ many: 10, total: 310, most: 58 }]],
    ["SELECT VALUE SUM(c.n) / COUNT(1) FROM c", [31]],
    ["SELECT VALUE {'least': MIN(c.n), 'all': [COUNT(1)]} FROM c", [{ least: 4, all: [10] }]],
  ]) {
    for (const maxItemCount of sizes) has(want)(await inPages(container, query, { partitionKey: "plum", ...(maxItemCount && { maxItemCount }) }), query);
  }
});

scenario("query-prefix", async (t) => {
  const container = await newContainer(t, { partitionKey: { paths: ["/tenant", "/user"], kind: PartitionKeyKind.MultiHash, version: 2 } });
  for (const tenant of ["t1", "t2"]) {
    for (const n of upTo(20)) await container.items.create({ id: String(n), tenant, user: `u${n}`, n, half: n >> 1 });
  }
  const everyQuery = async (what) => {
    for (const [query, judge] of [
      ["SELECT VALUE c.n FROM c WHERE c.n < 5", has(upTo(5))],
      ["SELECT VALUE c.n FROM c ORDER BY c.n DESC", is(upTo(20).reverse())],
      ["SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 3 LIMIT 4", is([3, 4, 5, 6])],
      ["SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n", is([0, 1, 2])],
      ["SELECT VALUE COUNT(1) FROM c", is([20])],
      ["SELECT VALUE SUM(c.n) FROM c", is([190])],
      ["SELECT DISTINCT VALUE c.half FROM c WHERE c.n < 6", has([0, 1, 2])],
      ["SELECT c.half, COUNT(1) AS many FROM c WHERE c.n < 3 GROUP BY c.half", has([{ half: 0, many: 2 }, { half: 1, many: 1 }])],
    ]) {
      for (const maxItemCount of sizes) {
        judge(await inPages(container, query, { partitionKey: ["t1"], ...(maxItemCount && { maxItemCount }) }), `${query} in pages of ${maxItemCount} ${what}`);
      }
    }
  };
  await everyQuery("");
  await splitFirst(container);
  await everyQuery("after a split");
});

scenario("query-refused", async (t) => {
  const { container } = await orchard(t);
  for (const [query, said] of [
    ["SELECT ST_DISTANCE(c.a, c.b) FROM c", /ST_DISTANCE/i],
    ["SELECT * FROM c WHERE FULLTEXTCONTAINS(c.name, 'plum')", /FULLTEXTCONTAINS/i],
    ["SELECT VectorDistance(c.v, [1]) FROM c", /VectorDistance/i],
    ["SELECT VALUE NOSUCH(c.n) FROM c", /NOSUCH/],
    ["SELECT VALUE udf.mine(c.n) FROM c", /udf/i],
  ]) {
    for (const options of [...ways, { partitionKey: "plum" }]) {
      const err = await refused(container.items.query(query, options).fetchAll(), 400);
      assert.match(err.message, said, query);
    }
  }
  // The SDK cannot combine the results of these queries over several partitions.
  for (const query of ["SELECT VALUE SUM(c.n) / 2 FROM c", "SELECT VALUE {'all': COUNT(1)} FROM c", "SELECT * FROM c ORDER BY LOWER(c.name)"]) {
    for (const options of ways) await refused(container.items.query(query, options).fetchAll(), 400);
  }
});

/** Reads each page of a query by a new client that has only the continuation. It calls between before each page. */
async function resumed(container, query, between = async () => {}) {
  const found = [];
  let continuationToken;
  for (let pages = 0; pages < 40; pages++) {
    await between(pages);
    const fresh = new CosmosClient({ endpoint, key }).database(container.database.id).container(container.id);
    const iterator = fresh.items.query(query, { maxItemCount: 7, forceQueryPlan: true, enableQueryControl: true, continuationToken });
    const page = await iterator.fetchNext();
    found.push(...(page.resources ?? []));
    continuationToken = page.continuationToken;
    if (!continuationToken || !iterator.hasMoreResults()) return found;
  }
  assert.fail(`${query} never ends`);
}

scenario("query-resume", async (t) => {
  const { container, all } = await orchard(t);
  is(upTo(60))((await resumed(container, "SELECT c.n FROM c ORDER BY c.n")).map((f) => f.n));
  is(upTo(60).reverse())((await resumed(container, "SELECT c.n FROM c ORDER BY c.n DESC")).map((f) => f.n));
  const ties = await resumed(container, "SELECT c.n, c.name FROM c ORDER BY c.name DESC"); // each name has ten items
  has(upTo(60))(ties.map((f) => f.n));
  is(all.map((f) => f.name).sort().reverse())(ties.map((f) => f.name));
});

scenario("query-split", async (t) => {
  const { container } = await orchard(t);
  const iterator = container.items.query("SELECT VALUE c.n FROM c", { maxItemCount: 4 });
  const found = [];
  for (let pages = 0; iterator.hasMoreResults(); pages++) {
    if (pages === 2 || pages === 5) await splitFirst(container);
    found.push(...((await iterator.fetchNext()).resources ?? []));
  }
  has(upTo(60))(found, "over two splits");
  // After a split, a client that combines the results of a query requests the old partition
  // again and again. So a new client reads each page. A new client loses rows whose keys equal
  // the last row's, so no keys are equal here.
  for (const [query, judge] of [
    ["SELECT VALUE c.n FROM c", has(upTo(60))],
    ["SELECT VALUE c.n FROM c ORDER BY c.n DESC", is(upTo(60).reverse())],
    ["SELECT VALUE c.n FROM c ORDER BY c.n", is(upTo(60))],
  ]) {
    const { container } = await orchard(t);
    judge(await resumed(container, query, (pages) => (pages === 2 || pages === 4) && splitFirst(container)), `${query} over two splits`);
  }
});
