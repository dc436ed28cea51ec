// The steps of the SDK's change feed samples: the pull model from the beginning, by feed
// range, by key, and resumed from a continuation.
import assert from "node:assert/strict";

import { ChangeFeedStartFrom, CosmosClient, PartitionKeyDefinitionVersion, StatusCodes } from "@azure/cosmos";

const client = new CosmosClient({ endpoint: process.env.CHANGEFEED_ENDPOINT, key: process.env.CHANGEFEED_KEY });

const { database } = await client.databases.createIfNotExists({ id: "changefeed-js" });
const { container } = await database.containers.createIfNotExists({ id: "families", partitionKey: { paths: ["/name"], version: PartitionKeyDefinitionVersion.V1 }, throughput: 11_000 });

async function ingest(from, to) {
  for (let i = from; i <= to; i++) {
    await container.items.create({ id: `item${i}`, name: "sample1", key: i });
    await container.items.create({ id: `item${i}`, name: "sample2", key: i });
  }
}

async function read(options) {
  const names = [];
  let continuation;
  for await (const page of container.items.getChangeFeedIterator(options).getAsyncIterator()) {
    continuation = page.continuationToken;
    if (page.statusCode === StatusCodes.NotModified) break;
    names.push(...page.result.map((item) => item.name));
  }
  return { names, continuation };
}

await ingest(1, 10);
const all = await read({ maxItemCount: 3, changeFeedStartFrom: ChangeFeedStartFrom.Beginning() });
assert.equal(all.names.length, 20);
const one = await read({ maxItemCount: 3, changeFeedStartFrom: ChangeFeedStartFrom.Beginning("sample1") });
assert.deepEqual(one.names, Array(10).fill("sample1"));
let inRanges = 0;
for (const range of await container.getFeedRanges()) {
  inRanges += (await read({ maxItemCount: 3, changeFeedStartFrom: ChangeFeedStartFrom.Beginning(range) })).names.length;
}
assert.equal(inRanges, 20);

await ingest(11, 15);
const more = await read({ changeFeedStartFrom: ChangeFeedStartFrom.Continuation(all.continuation) });
assert.equal(more.names.length, 10);

await database.delete();
console.log("\ndone");
