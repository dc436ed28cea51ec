// The steps of the SDK's README, with the endpoint and the key of the environment.
import assert from "node:assert/strict";

import { CosmosClient, PartitionKeyDefinitionVersion, PartitionKeyKind } from "@azure/cosmos";

const client = new CosmosClient({ endpoint: process.env.CHANGEFEED_ENDPOINT, key: process.env.CHANGEFEED_KEY });

const { database } = await client.databases.createIfNotExists({ id: "Test Database" });
const { container } = await database.containers.createIfNotExists({ id: "Test Container" });

for (const [key, status] of [["1", 404], [2, 404], [true, 404], [{}, 404], [undefined, 404], [null, 404], [["1"], 404]]) {
  const { statusCode } = await container.item("id", key).read();
  assert.equal(statusCode, status, `key ${JSON.stringify(key)}`);
}

for (const city of [
  { id: "1", name: "Olympia", state: "WA", isCapitol: true },
  { id: "2", name: "Redmond", state: "WA", isCapitol: false },
  { id: "3", name: "Chicago", state: "IL", isCapitol: false },
]) {
  await container.items.create(city);
}
const { resource: read } = await container.item("1", undefined).read();
assert.equal(read.name, "Olympia");

const { resources: capitals } = await container.items.query("SELECT * from c WHERE c.isCapitol = true").fetchAll();
assert.deepEqual(capitals.map((c) => c.id), ["1"]);
const { resources: others } = await container.items
  .query({ query: "SELECT * from c WHERE c.isCapitol = @isCapitol", parameters: [{ name: "@isCapitol", value: false }] })
  .fetchAll();
assert.deepEqual(others.map((c) => c.id).sort(), ["2", "3"]);

const pages = container.items.query("SELECT * from c", { maxItemCount: 2, enableQueryControl: true, forceQueryPlan: true });
const first = await pages.fetchNext();
assert.equal(first.resources.length, 2);
const second = await container.items
  .query("SELECT * from c", { maxItemCount: 2, enableQueryControl: true, forceQueryPlan: true, continuationToken: first.continuationToken })
  .fetchNext();
assert.deepEqual([...first.resources, ...second.resources].map((c) => c.id).sort(), ["1", "2", "3"]);

await container.item("1", undefined).delete();

const { container: hierarchical } = await database.containers.createIfNotExists({
  id: "Hierarchical Container",
  partitionKey: { paths: ["/name", "/address/zip"], version: PartitionKeyDefinitionVersion.V2, kind: PartitionKeyKind.MultiHash },
});
await hierarchical.items.create({ id: "1", name: "foo", address: { zip: 100 }, active: true });
assert.equal((await hierarchical.item("1", ["foo", 100]).read()).resource.active, true);
const { resources: active } = await hierarchical.items.query("SELECT * from c WHERE c.active = true", { partitionKey: ["foo", 100] }).fetchAll();
assert.equal(active.length, 1);

await database.delete();
console.log("\ndone");
