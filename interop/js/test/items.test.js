import assert from "node:assert/strict";

import { PartitionKeyKind } from "@azure/cosmos";

import { newContainer, refused } from "../lib/env.js";
import { scenario } from "../lib/scenario.js";

/** Writes, reads, replaces and deletes an item with an id and a key. */
async function everyOperation(container, id, key, properties) {
  const body = (v) => ({ id, ...properties, v });
  const item = container.item(id, key);
  const current = async (want) => {
    const { resource, statusCode } = await item.read();
    assert.equal(statusCode, 200);
    assert.equal(resource.id, id);
    assert.equal(resource.v, want);
  };
  assert.equal((await container.items.create(body(1))).statusCode, 201);
  await current(1);
  await refused(container.items.create(body(1)), 409);
  assert.equal((await item.replace(body(2))).resource.v, 2);
  await current(2);
  assert.equal((await container.items.upsert(body(3))).statusCode, 200);
  await current(3);
  assert.equal((await item.patch([{ op: "incr", path: "/v", value: 1 }])).resource.v, 4);
  assert.equal((await item.delete()).statusCode, 204);
  assert.equal((await item.read()).statusCode, 404);
  await refused(item.replace(body(5)), 404);
  await refused(item.delete(), 404);
}

scenario("items-ids", async (t) => {
  const container = await newContainer(t);
  for (const id of [
    "plain", "with spaces", "o 1+%é", "100%", "%20", "a+b&c=d;e,f", "it's", 'say "hi"', "日本", "😀", "(brackets)[x]{y}", "a:b@c$d!e*f", "~-_.", "..a", "a|b^c`d<e>",
    "x".repeat(255), "ü" + "é".repeat(100),
  ]) {
    await everyOperation(container, id, "p", { pk: "p" });
  }
  const { resource } = await container.items.create({ pk: "p" });
  assert.ok(resource.id.length > 10, "an id is made");
});

scenario("items-keys", async (t) => {
  const container = await newContainer(t);
  for (const key of [
    "a/b/c", 'he said "no"', "back\\slash", "Привет é 日本", "😀", "a\u0000b", "", " ", "null", "k".repeat(500),
    0, -12.5, 1e21, 9007199254740991, true, false, null,
  ]) {
    await everyOperation(container, "same id", key, { pk: key });
  }
  await everyOperation(container, "same id", undefined, {});

  await container.items.create({ id: "1", pk: "left", v: 1 });
  await container.items.create({ id: "1", pk: "right", v: 2 });
  assert.equal((await container.item("1", "left").read()).resource.v, 1);
  assert.equal((await container.item("1", "right").read()).resource.v, 2);
  assert.equal((await container.item("1", "middle").read()).statusCode, 404);
  await refused(container.item("1", "left").replace({ id: "1", pk: "right" }), 400);
});

scenario("items-hierarchical", async (t) => {
  const container = await newContainer(t, { partitionKey: { paths: ["/tenant", "/user", "/session"], kind: PartitionKeyKind.MultiHash, version: 2 } });
  for (const tenant of ["t/1", "t2"]) {
    for (const user of ["ü", "u2"]) {
      for (const session of [0, 1, 2]) {
        await everyOperation(container, "1", [tenant, user, session], { tenant, user, session });
        await container.items.create({ id: "2", tenant, user, session });
      }
    }
  }
  await everyOperation(container, "1", ["t3", {}, null], { tenant: "t3", session: null });
  for (const [partitionKey, want] of [[["t/1", "ü", 2], 1], [["t/1", "ü"], 3], [["t2"], 6], [["t4"], 0], [undefined, 12]]) {
    const { resources } = await container.items.query("SELECT * FROM c", { partitionKey }).fetchAll();
    assert.equal(resources.length, want, JSON.stringify(partitionKey));
  }
});

scenario("etag-races", async (t) => {
  const container = await newContainer(t);
  await container.items.create({ id: "1", pk: "p", v: 0 });
  const item = container.item("1", "p");
  const ifMatch = (etag) => ({ accessCondition: { type: "IfMatch", condition: etag } });
  const ifNoneMatch = (etag) => ({ accessCondition: { type: "IfNoneMatch", condition: etag } });
  for (let round = 1; round <= 40; round++) {
    const { etag } = await item.read();
    const results = await Promise.allSettled([0, 1, 2, 3].map((w) => item.replace({ id: "1", pk: "p", v: round * 4 + w }, ifMatch(etag))));
    const won = results.flatMap((r, w) => (r.status === "fulfilled" ? [w] : []));
    assert.equal(won.length, 1, `round ${round}: ${won.length} writers won`);
    for (const r of results) if (r.status === "rejected") assert.equal(r.reason.code, 412);
    const after = await item.read();
    assert.equal(after.resource.v, round * 4 + won[0]);
    assert.notEqual(after.etag, etag);
    assert.equal((await item.read(ifNoneMatch(after.etag))).statusCode, 304);
    assert.equal((await item.read(ifNoneMatch(etag))).resource.v, after.resource.v);
    await refused(item.delete(ifMatch(etag)), 412);
    await refused(container.items.upsert({ id: "1", pk: "p", v: -1 }, ifMatch(etag)), 412);
  }
  await item.replace({ id: "1", pk: "p", v: 7 }, ifMatch("*"));
});

scenario("patch", async (t) => {
  const container = await newContainer(t);
  await container.items.create({ id: "1", pk: "p", n: 1, gone: true, list: ["a", "c"], deep: { x: 1 }, from: "here" });
  const item = container.item("1", "p");
  const { resource } = await item.patch({
    condition: "from c where c.n = 1",
    operations: [
      { op: "add", path: "/added", value: { k: "v" } },
      { op: "add", path: "/list/1", value: "b" },
      { op: "add", path: "/list/-", value: "d" },
      { op: "set", path: "/deep/y", value: 2 },
      { op: "replace", path: "/deep/x", value: "one" },
      { op: "remove", path: "/gone" },
      { op: "incr", path: "/n", value: 41.5 },
      { op: "incr", path: "/fresh", value: -3 },
      { op: "move", from: "/from", path: "/deep/to" },
    ],
  });
  const want = { added: { k: "v" }, list: ["a", "b", "c", "d"], deep: { x: "one", y: 2, to: "here" }, gone: undefined, from: undefined, n: 42.5, fresh: -3 };
  for (const [name, value] of Object.entries(want)) assert.deepEqual(resource[name], value, name);
  const { resource: read } = await item.read();
  assert.deepEqual(read, resource);
  await item.patch([{ op: "set", path: "/bare", value: true }]);

  const { resource: before } = await item.read();
  assert.equal(before.bare, true);
  const unchanged = async (patch, status) => {
    await refused(item.patch(patch), status);
    assert.deepEqual((await item.read()).resource, before);
  };
  await unchanged({ condition: "from c where c.n = 1", operations: [{ op: "set", path: "/n", value: 0 }] }, 412);
  await unchanged([{ op: "set", path: "/n", value: 0 }, { op: "replace", path: "/nowhere", value: 1 }], 400);
  await unchanged([{ op: "set", path: "/n", value: 0 }, { op: "remove", path: "/nowhere" }], 400);
  await unchanged([{ op: "set", path: "/n", value: 0 }, { op: "move", from: "/nowhere", path: "/there" }], 400);
  await unchanged([{ op: "set", path: "/id", value: "2" }], 400);
  await unchanged([{ op: "set", path: "/pk", value: "q" }], 400);
  await unchanged(Array(11).fill({ op: "incr", path: "/n", value: 1 }), 400);
  await refused(container.item("not there", "p").patch([{ op: "set", path: "/n", value: 0 }]), 404);
});
