import assert from "node:assert/strict";

import { BulkOperationType, ChangeFeedStartFrom } from "@azure/cosmos";

import { newContainer, refused, until } from "../lib/env.js";
import { drain } from "../lib/feed.js";
import { scenario } from "../lib/scenario.js";

const statuses = (results) => results.map((r) => r.statusCode);

scenario("batch-success", async (t) => {
  const container = await newContainer(t);
  for (const id of ["old", "changed", "away"]) await container.items.create({ id, pk: "a/b", v: 1 });
  const { result, code } = await container.items.batch(
    [
      { operationType: "Create", resourceBody: { id: "new", pk: "a/b", v: 1 } },
      { operationType: "Upsert", resourceBody: { id: "old", pk: "a/b", v: 2 } },
      { operationType: "Upsert", resourceBody: { id: "up", pk: "a/b", v: 1 } },
      { operationType: "Read", id: "new" },
      { operationType: "Replace", id: "changed", resourceBody: { id: "changed", pk: "a/b", v: 2 } },
      { operationType: "Patch", id: "changed", resourceBody: { operations: [{ op: "incr", path: "/v", value: 10 }], condition: "from c where c.v = 2" } },
      { operationType: "Delete", id: "away" },
    ],
    "a/b",
  );
  assert.equal(code, 200);
  assert.deepEqual(statuses(result), [201, 200, 201, 200, 200, 200, 204]);
  assert.equal(result[3].resourceBody.v, 1);
  assert.ok(result[0].eTag && result[0].requestCharge > 0);
  for (const [id, v] of [["new", 1], ["old", 2], ["up", 1], ["changed", 12]]) assert.equal((await container.item(id, "a/b").read()).resource.v, v, id);
  assert.equal((await container.item("away", "a/b").read()).statusCode, 404);
});

scenario("batch-failure", async (t) => {
  const container = await newContainer(t);
  await container.items.create({ id: "there", pk: "p", v: 1 });
  const feed = container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning() });
  assert.equal((await drain(feed)).length, 1);
  for (const [third, status] of [
    [{ operationType: "Create", resourceBody: { id: "there", pk: "p", v: 2 } }, 409],
    [{ operationType: "Delete", id: "not there" }, 404],
    [{ operationType: "Replace", id: "there", resourceBody: { id: "there", pk: "p", v: 2 }, ifMatch: '"none of its versions"' }, 412],
    [{ operationType: "Patch", id: "there", resourceBody: { operations: [{ op: "set", path: "/v", value: 9 }], condition: "from c where c.v = 99" } }, 412],
  ]) {
    const { result, code } = await container.items.batch(
      [
        { operationType: "Create", resourceBody: { id: "b1", pk: "p", v: 1 } },
        { operationType: "Upsert", resourceBody: { id: "there", pk: "p", v: 5 } },
        third,
        { operationType: "Upsert", resourceBody: { id: "b2", pk: "p", v: 1 } },
      ],
      "p",
    );
    assert.equal(code, 207);
    assert.deepEqual(statuses(result), [424, 424, status, 424]);
  }
  assert.equal((await container.item("b1", "p").read()).statusCode, 404);
  assert.equal((await container.item("b2", "p").read()).statusCode, 404);
  assert.equal((await container.item("there", "p").read()).resource.v, 1);
  assert.deepEqual(await drain(feed), []);
});

scenario("bulk", async (t) => {
  const container = await newContainer(t);
  const create = (i) => ({ operationType: BulkOperationType.Create, partitionKey: `key ${i % 10}`, resourceBody: { id: String(i), pk: `key ${i % 10}`, v: 1 } });
  const operations = Array.from({ length: 300 }, (_, i) => create(i));
  const made = await container.items.executeBulkOperations(operations);
  assert.equal(made.length, 300);
  made.forEach((r, i) => {
    assert.equal(r.response?.statusCode, 201, `${i}: ${r.error?.message}`);
    assert.equal(r.operationInput.resourceBody.id, String(i));
  });
  const mixed = await container.items.executeBulkOperations([
    create(0),
    { operationType: BulkOperationType.Read, id: "1", partitionKey: "key 1" },
    { operationType: BulkOperationType.Upsert, partitionKey: "key 2", resourceBody: { id: "2", pk: "key 2", v: 2 } },
    { operationType: BulkOperationType.Replace, id: "3", partitionKey: "key 3", resourceBody: { id: "3", pk: "key 3", v: 3 } },
    { operationType: BulkOperationType.Patch, id: "4", partitionKey: "key 4", resourceBody: { operations: [{ op: "incr", path: "/v", value: 3 }] } },
    { operationType: BulkOperationType.Delete, id: "5", partitionKey: "key 5" },
    { operationType: BulkOperationType.Delete, id: "none", partitionKey: "key 5" },
    { operationType: BulkOperationType.Create, partitionKey: "é/😀", resourceBody: { id: "odd", pk: "é/😀" } },
    { operationType: BulkOperationType.Create, partitionKey: 7, resourceBody: { id: "odd", pk: 7 } },
    { operationType: BulkOperationType.Create, partitionKey: null, resourceBody: { id: "odd", pk: null } },
  ]);
  assert.deepEqual(mixed.map((r) => r.response?.statusCode ?? r.error.code), [409, 200, 200, 200, 200, 204, 404, 201, 201, 201]);
  assert.equal(mixed[1].response.resourceBody.v, 1);
  assert.equal((await container.item("4", "key 4").read()).resource.v, 4);

  const older = await container.items.bulk([create(1000), create(0), { operationType: "Read", id: "1", partitionKey: "key 1" }], { continueOnError: true });
  assert.deepEqual(statuses(older), [201, 409, 200]);
});

scenario("ttl", async (t) => {
  const container = await newContainer(t, { defaultTtl: 2 });
  await container.items.create({ id: "own", pk: "p", ttl: 1 });
  await container.items.create({ id: "default", pk: "p" });
  await container.items.create({ id: "stays", pk: "p", ttl: -1 });
  const there = async (id) => (await container.item(id, "p").read()).statusCode === 200;
  await until("both items expired", async () => !(await there("own")) && !(await there("default")));
  assert.ok(await there("stays"));
  const { resources } = await container.items.query("SELECT * FROM c", { partitionKey: "p" }).fetchAll();
  assert.deepEqual(resources.map((r) => r.id), ["stays"]);
  const feed = await drain(container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning() }));
  assert.deepEqual(feed.map((r) => r.id), ["stays"]);
  assert.equal((await container.items.create({ id: "own", pk: "p", ttl: 3600 })).statusCode, 201);
  assert.ok(await there("own"));
  await refused(container.items.create({ id: "zero", pk: "p", ttl: 0 }), 400);
});

scenario("throughput-manual", async (t) => {
  const container = await newContainer(t);
  const { offer, resource } = await container.readOffer();
  assert.equal(resource.content.offerThroughput, 20_000);
  assert.equal((await container.getFeedRanges()).length, 2);
  resource.content.offerThroughput = 15_000;
  assert.equal((await offer.replace(resource)).resource.content.offerThroughput, 15_000);
  assert.equal((await container.readOffer()).resource.content.offerThroughput, 15_000);
  const { container: small } = await container.database.containers.create({ id: "small", partitionKey: { paths: ["/pk"] } });
  assert.equal((await small.getFeedRanges()).length, 1);
});

scenario("throughput-autoscale", async (t) => {
  const container = await newContainer(t, { throughput: undefined, maxThroughput: 4_000 });
  const { offer, resource } = await container.readOffer();
  assert.equal(resource.content.offerAutopilotSettings.maxThroughput, 4_000);
  resource.content.offerAutopilotSettings.maxThroughput = 8_000;
  assert.equal((await offer.replace(resource)).resource.content.offerAutopilotSettings.maxThroughput, 8_000);
  assert.equal((await container.readOffer()).resource.content.offerAutopilotSettings.maxThroughput, 8_000);
});
