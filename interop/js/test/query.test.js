import assert from "node:assert/strict";

import { CosmosClient } from "@azure/cosmos";

import { endpoint, key, newContainer, refused } from "../lib/env.js";
import { ids, orchard } from "../lib/orchard.js";
import { scenario } from "../lib/scenario.js";

scenario("query-filter", async (t) => {
  const { container, all } = await orchard(t);
  for (const [where, match] of [
    ["c.n = 7", (f) => f.n === 7],
    ["c.n != 7", (f) => f.n !== 7],
    ["c.n < 10 AND c.n >= 4", (f) => f.n < 10 && f.n >= 4],
    ["c.n <= 3 OR c.n > 55", (f) => f.n <= 3 || f.n > 55],
    ["NOT (c.name = 'plum')", (f) => f.name !== "plum"],
    ["c.name IN ('plum', \"it's\")", (f) => f.name === "plum" || f.name === "it's"],
    ["c.n BETWEEN 10 AND 12", (f) => f.n >= 10 && f.n <= 12],
    ["IS_DEFINED(c.price)", (f) => f.price !== undefined],
    ["c.price > 0", (f) => f.price > 0],
    ["c.price <> null", (f) => f.price !== undefined],
    ['c.inner["x y"] = 2', (f) => f.inner["x y"] === 2],
    ["ARRAY_CONTAINS(c.tags, 't2')", (f) => f.tags[0] === "t2"],
    ["CONTAINS(c.name, 'an')", (f) => f.name.includes("an")],
    ["ENDSWITH(c.name, 'e')", (f) => f.name.endsWith("e")],
    ["c.n = '7'", () => false],
    ["c.nowhere = 1 OR c.n = 1", (f) => f.n === 1],
  ]) {
    const { resources } = await container.items.query(`SELECT * FROM c WHERE ${where}`).fetchAll();
    assert.deepEqual(ids(resources), ids(all.filter(match)), where);
    const { resources: planned } = await container.items.query(`SELECT * FROM c WHERE ${where}`, { forceQueryPlan: true, maxItemCount: 4 }).fetchAll();
    assert.deepEqual(ids(planned), ids(all.filter(match)), `${where}, by its plan`);
    const { resources: within } = await container.items.query(`SELECT * FROM c WHERE ${where}`, { partitionKey: "it's" }).fetchAll();
    assert.deepEqual(ids(within), ids(all.filter((f) => f.pk === "it's" && match(f))), `${where} within a key`);
  }
  const { resources: projected } = await container.items.query("select c.id as Name, c.price, c.inner['x y'] from c where c.n = 1").fetchAll();
  assert.deepEqual(projected, [{ Name: "01", "x y": 1 }]);
  const { resources: values } = await container.items.query("SELECT VALUE r.n FROM root r WHERE r.n < 3").fetchAll();
  assert.deepEqual(values.sort(), [0, 1, 2]);
  assert.equal((await container.items.readAll().fetchAll()).resources.length, 60);
  for (const wrong of ["SELEC * FROM c", "SELECT * FROM c WHERE", "SELECT * FROM c WHERE NOSUCH(c.n)"]) {
    await refused(container.items.query(wrong, { partitionKey: "plum" }).fetchAll(), 400);
  }
});

scenario("query-parameters", async (t) => {
  const container = await newContainer(t);
  const values = ["plain", 'it\'s "quoted" \\ back', "' OR 1=1 --", "é 日本 😀", 7, -1.5, true, false, null, { a: [1, "x"] }, [1, null]];
  for (const [n, v] of values.entries()) await container.items.create({ id: String(n), pk: "p", v, n });
  for (const [n, v] of values.entries()) {
    for (const options of [{}, { partitionKey: "p" }]) {
      const { resources } = await container.items
        .query({ query: "SELECT * FROM c WHERE c.v = @v AND c.n >= @low", parameters: [{ name: "@v", value: v }, { name: "@low", value: 0 }] }, options)
        .fetchAll();
      assert.deepEqual(ids(resources), [String(n)], `@v = ${JSON.stringify(v)}`);
    }
  }
});

scenario("query-paging", async (t) => {
  const { container, all } = await orchard(t);
  for (const forceQueryPlan of [false, true]) {
    for (const maxItemCount of [1, 7, 59, 1000]) {
      const options = { maxItemCount, ...(forceQueryPlan && { forceQueryPlan, enableQueryControl: true }) };
      const found = [];
      const iterator = container.items.query("SELECT * FROM c WHERE c.n >= 0", options);
      while (iterator.hasMoreResults()) {
        const { resources } = await iterator.fetchNext();
        assert.ok((resources ?? []).length <= maxItemCount, `a page of ${resources?.length}, asked for ${maxItemCount}`);
        found.push(...(resources ?? []));
      }
      assert.deepEqual(ids(found), ids(all), `pages of ${maxItemCount}`);
    }
    // A new client needs only the continuation.
    const found = [];
    let continuationToken;
    do {
      const fresh = new CosmosClient({ endpoint, key }).database(container.database.id).container(container.id);
      const page = await fresh.items.query("SELECT * FROM c", { maxItemCount: 17, continuationToken, ...(forceQueryPlan && { forceQueryPlan, enableQueryControl: true }) }).fetchNext();
      found.push(...(page.resources ?? []));
      continuationToken = page.continuationToken;
    } while (continuationToken);
    assert.deepEqual(ids(found), ids(all), "by continuation");
  }
  await refused(container.items.query("SELECT * FROM c", { partitionKey: "plum", continuationToken: "no continuation of mine" }).fetchNext(), 400);
});

scenario("query-startswith", async (t) => {
  const { container, all } = await orchard(t);
  for (const [query, match] of [
    ["SELECT * FROM c WHERE STARTSWITH(c.name, @prefix)", (f) => f.name.startsWith("ap")],
    ["SELECT * FROM c WHERE StartsWith(c.name, @prefix, true)", (f) => f.name.toLowerCase().startsWith("ap")],
    ["SELECT * FROM c WHERE startswith(c.name, @prefix, false)", (f) => f.name.startsWith("ap")],
    ["SELECT * FROM c WHERE STARTSWITH(c.n, @prefix)", () => false],
    ["SELECT * FROM c WHERE STARTSWITH(c.id, '')", () => true],
  ]) {
    const { resources } = await container.items.query({ query, parameters: [{ name: "@prefix", value: "ap" }] }).fetchAll();
    assert.deepEqual(ids(resources), ids(all.filter(match)), query);
  }
});

scenario("query-top", async (t) => {
  const { container } = await orchard(t);
  for (const options of [{ partitionKey: "plum" }, {}, { maxItemCount: 2 }, { forceQueryPlan: true }, { forceQueryPlan: true, maxItemCount: 2 }]) {
    const { resources } = await container.items.query("SELECT TOP 5 * FROM c WHERE c.n >= 10", options).fetchAll();
    assert.equal(new Set(ids(resources)).size, 5, JSON.stringify(options));
    assert.equal(resources.length, 5, JSON.stringify(options));
    assert.ok(resources.every((f) => f.n >= 10));
  }
});

scenario("query-point-order", async (t) => {
  const { container } = await orchard(t);
  const order = async (query, options) => (await container.items.query(query, { partitionKey: "plum", ...options }).fetchAll()).resources;
  assert.deepEqual(await order("SELECT VALUE c.n FROM c ORDER BY c.n DESC"), [58, 52, 46, 40, 34, 28, 22, 16, 10, 4]);
  assert.deepEqual(await order("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 2 LIMIT 3"), [16, 22, 28]);
  assert.deepEqual(await order("SELECT VALUE COUNT(1) FROM c WHERE c.n > 20"), [7]);
  assert.deepEqual(await order("SELECT VALUE c.n FROM c ORDER BY c.n", { maxItemCount: 3 }), [4, 10, 16, 22, 28, 34, 40, 46, 52, 58]);
});

scenario("read-many", async (t) => {
  // With this SDK, users read many items by a bulk of reads, each by id and key.
  const { container } = await orchard(t);
  const wanted = [["00", "apple"], ["01", "Apricot"], ["03", "it's"], ["59", "quince"], ["59", "plum"]];
  const results = await container.items.executeBulkOperations(wanted.map(([id, partitionKey]) => ({ operationType: "Read", id, partitionKey })));
  assert.deepEqual(results.map((r) => r.response?.statusCode ?? r.error.code), [200, 200, 200, 200, 404]);
  assert.deepEqual(results.slice(0, 4).map((r) => r.response.resourceBody.id), ["00", "01", "03", "59"]);
});
