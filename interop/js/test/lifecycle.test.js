import assert from "node:assert/strict";

import { client, newDatabase, refused } from "../lib/env.js";
import { scenario } from "../lib/scenario.js";

scenario("database-lifecycle", async () => {
  const id = `js life ${process.pid} é`;
  const first = await client.databases.createIfNotExists({ id });
  assert.equal(first.statusCode, 201);
  const second = await client.databases.createIfNotExists({ id });
  assert.equal(second.statusCode, 200);
  assert.equal(second.resource._rid, first.resource._rid);
  await refused(client.databases.create({ id }), 409);

  const { resource } = await client.database(id).read();
  assert.equal(resource.id, id);
  assert.ok(resource._self && resource._etag && resource._ts > 0);
  const { resources: all } = await client.databases.readAll().fetchAll();
  assert.ok(all.some((d) => d.id === id));
  const { resources: found } = await client.databases
    .query({ query: "SELECT * FROM root r WHERE r.id = @id", parameters: [{ name: "@id", value: id }] })
    .fetchAll();
  assert.deepEqual(found.map((d) => d.id), [id]);

  assert.equal((await client.database(id).delete()).statusCode, 204);
  await refused(client.database(id).read(), 404);
  await refused(client.database(id).delete(), 404);
});

scenario("container-lifecycle", async (t) => {
  const database = await newDatabase(t);
  const definition = {
    id: "orders",
    partitionKey: { paths: ["/customer/id"] },
    uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/number"] }] },
    indexingPolicy: { indexingMode: "consistent", automatic: true, includedPaths: [{ path: "/*" }], excludedPaths: [{ path: "/big/*" }] },
    computedProperties: [{ name: "lower", query: "SELECT VALUE LOWER(c.name) FROM c" }],
  };
  const first = await database.containers.createIfNotExists(definition);
  assert.equal(first.statusCode, 201);
  const second = await database.containers.createIfNotExists(definition);
  assert.equal(second.statusCode, 200);
  assert.equal(second.resource._rid, first.resource._rid);
  await refused(database.containers.create(definition), 409);

  const container = database.container("orders");
  const { resource } = await container.read();
  assert.deepEqual(resource.partitionKey.paths, ["/customer/id"]);
  assert.equal(resource.partitionKey.kind, "Hash", "the kind is explicit");
  assert.equal(resource.partitionKey.version, undefined, "no version was sent, so there is none");
  assert.deepEqual(resource.uniqueKeyPolicy.uniqueKeys[0].paths, ["/number"]);
  assert.deepEqual(resource.computedProperties, definition.computedProperties);
  assert.ok(resource.indexingPolicy.excludedPaths.some((p) => p.path === "/big/*"));

  const { resource: replaced } = await container.replace({ ...resource, defaultTtl: 3600 });
  assert.equal(replaced.defaultTtl, 3600);
  assert.deepEqual(replaced.computedProperties, definition.computedProperties);
  await refused(container.replace({ ...resource, partitionKey: { paths: ["/other"] } }), 400);
  await refused(container.replace({ ...replaced }, { accessCondition: { type: "IfMatch", condition: resource._etag } }), 412);

  await database.containers.create({ id: "again", partitionKey: { paths: ["/pk"] } });
  const { resources: all } = await database.containers.readAll().fetchAll();
  assert.deepEqual(all.map((c) => c.id).sort(), ["again", "orders"]);
  const { resources: found } = await database.containers.query("SELECT * FROM c WHERE c.id != 'orders'").fetchAll();
  assert.deepEqual(found.map((c) => c.id), ["again"]);

  assert.equal((await container.delete()).statusCode, 204);
  await refused(container.read(), 404);
  const gone = await database.container("orders").item("1", "a").read();
  assert.equal(gone.statusCode, 404);
  await refused(database.container("orders").items.query("SELECT * FROM c").fetchAll(), 404);
});
