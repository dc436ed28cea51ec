import assert from "node:assert/strict";

import { ChangeFeedStartFrom, CosmosClient } from "@azure/cosmos";

import { throttle } from "../lib/admin.js";
import { client, endpoint, newContainer, readOnlyKey, refused, spread, upsert } from "../lib/env.js";
import { drain } from "../lib/feed.js";
import { scenario } from "../lib/scenario.js";

/** A client whose requests are counted, retries included, by the SDK's own plugins. */
function counted(key, requests) {
  const plugin = async (context, diagnosticNode, next) => {
    requests.count++;
    if (context.method === "POST" && context.resourceType === "docs") requests.writes++;
    return next(context);
  };
  return new CosmosClient({ endpoint, key, plugins: [{ on: "request", plugin }] });
}

scenario("throttling", async (t) => {
  const container = await newContainer(t);
  const requests = { count: 0, writes: 0 };
  const writer = counted(process.env.CHANGEFEED_KEY, requests).database(container.database.id).container(container.id);
  await writer.items.create({ id: "up", pk: "warm", v: 0 });
  const before = requests.writes;
  const end = await throttle(container, 5);
  try {
    await Promise.all([0, 1, 2, 3].map(async (w) => {
      for (let n = 0; n < 20; n++) await writer.items.create({ id: `${w}-${n}`, pk: `key ${n}`, v: n });
    }));
  } finally {
    const refusals = await end();
    assert.ok(refusals > 0, "nothing was throttled");
    assert.equal(requests.writes - before, 80 + refusals);
  }
  assert.equal((await drain(container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning() }))).length, 81);
});

scenario("wrong-key", async () => {
  for (const key of ["d3Jvbmc=", Buffer.alloc(64).toString("base64")]) {
    const requests = { count: 0, writes: 0 };
    const err = await refused(counted(key, requests).databases.createIfNotExists({ id: "never" }), 401);
    assert.ok(err.message.length > 20, "the refusal says nothing");
    assert.ok(requests.count <= 4, `${requests.count} requests until the refusal came through`);
  }
  await refused(client.database("never").read(), 404);
});

scenario("read-only-key", async (t) => {
  const container = await newContainer(t);
  await upsert(container, spread(10, 1));
  const account = new CosmosClient({ endpoint, key: readOnlyKey });
  const reading = account.database(container.database.id).container(container.id);
  assert.equal((await reading.item("3", "key 3").read()).resource.v, 1);
  assert.equal((await reading.items.query("SELECT * FROM c").fetchAll()).resources.length, 10);
  assert.equal((await reading.items.query("SELECT * FROM c", { forceQueryPlan: true }).fetchAll()).resources.length, 10);
  assert.equal((await drain(reading.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning() }))).length, 10);
  await refused(reading.items.upsert({ id: "3", pk: "key 3", v: 2 }), 403);
  await refused(reading.item("3", "key 3").delete(), 403);
  await refused(reading.item("3", "key 3").patch([{ op: "incr", path: "/v", value: 1 }]), 403);
  await refused(account.databases.create({ id: "never" }), 403);
});
