// The steps of the SDK's sample of all versions and deletes mode. The container sets no retention.
// It is read as a whole, by key and by feed range, and resumed from a continuation.
import assert from "node:assert/strict";

import { ChangeFeedMode, ChangeFeedStartFrom, CosmosClient, PartitionKeyDefinitionVersion, StatusCodes } from "@azure/cosmos";

const client = new CosmosClient({ endpoint: process.env.CHANGEFEED_ENDPOINT, key: process.env.CHANGEFEED_KEY });

const { database } = await client.databases.createIfNotExists({ id: "versions-js" });
const { container } = await database.containers.createIfNotExists({
  id: "families", partitionKey: { paths: ["/name"], version: PartitionKeyDefinitionVersion.V1 }, throughput: 11_000,
});
const names = ["sample1", "sample2", "sample3", "sample4"];

async function change(from, to) {
  for (let i = from; i <= to; i++) {
    for (const name of names) await container.items.create({ id: `item${i}`, name, key: i });
  }
  await container.items.upsert({ id: `item${from}`, name: "sample1", key: from + 1 });
  await container.item(`item${from}`, "sample1").delete();
}

async function read(iterator) {
  const changes = [];
  for await (const page of iterator.getAsyncIterator()) {
    if (page.statusCode === StatusCodes.NotModified) return { changes, continuation: page.continuationToken };
    changes.push(...page.result.map((c) => [c.metadata.operationType, c.current.name ?? c.metadata.partitionKey.name]));
  }
}

const options = (changeFeedStartFrom) => ({ maxItemCount: 1, changeFeedMode: ChangeFeedMode.AllVersionsAndDeletes, changeFeedStartFrom });
const ranges = await container.getFeedRanges();
assert.equal(ranges.length, 2);
let round = 0;
let inRanges = 0;
for (const resource of [undefined, "sample1", ...ranges]) {
  const iterator = container.items.getChangeFeedIterator(options(ChangeFeedStartFrom.Now(resource)));
  await iterator.readNext(); // the first read determines what "now" is
  await change(round * 4 + 1, round * 4 + 2);
  const first = await read(iterator);
  await change(round * 4 + 3, round * 4 + 4);
  const second = await read(container.items.getChangeFeedIterator(options(ChangeFeedStartFrom.Continuation(first.continuation))));
  round++;
  for (const { changes } of [first, second]) {
    if (resource === undefined) {
      assert.equal(changes.length, 10);
    } else if (resource === "sample1") {
      assert.deepEqual(changes, [["create", "sample1"], ["create", "sample1"], ["replace", "sample1"], ["delete", "sample1"]]);
    } else {
      inRanges += changes.length;
    }
  }
}
assert.equal(inRanges, 20, "changes of both ranges");

await database.delete();
console.log("\ndone");
