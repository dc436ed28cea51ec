// The steps of the service's quick start for Node.js: write a product, read it, query its category.
import assert from "node:assert/strict";

import { CosmosClient } from "@azure/cosmos";

// The server prints this line for the SDK.
const client = new CosmosClient(`AccountEndpoint=${process.env.CHANGEFEED_ENDPOINT};AccountKey=${process.env.CHANGEFEED_KEY};`);

const { database } = await client.databases.createIfNotExists({ id: "cosmicworks-js", throughput: 400 });
const { container } = await database.containers.createIfNotExists({ id: "products", partitionKey: "/category" });

const product = { id: "70b63682-b93a-4c77-aad2-65501347265f", category: "gear-surf-surfboards", name: "Yamba Surfboard", quantity: 12, price: 850.0, clearance: false };
const written = await container.items.upsert(product);
assert.equal(written.statusCode, 201);
assert.ok(written.requestCharge > 0, "a write costs nothing");
assert.equal((await container.items.upsert(product)).statusCode, 200);

const { resource: read, statusCode } = await container.item(product.id, product.category).read();
assert.equal(statusCode, 200);
assert.equal(read.name, product.name);

const found = [];
const iterator = container.items.query(
  { query: "SELECT * FROM products p WHERE p.category = @category", parameters: [{ name: "@category", value: "gear-surf-surfboards" }] },
  { partitionKey: "gear-surf-surfboards" },
);
while (iterator.hasMoreResults()) {
  const { resources } = await iterator.fetchNext();
  found.push(...(resources ?? []));
}
assert.deepEqual(found.map((p) => p.id), [product.id]);

await database.delete();
console.log("\ndone");
