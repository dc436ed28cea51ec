import assert from "node:assert/strict";

import { CosmosClient, PermissionMode } from "@azure/cosmos";

import { endpoint, newContainer, refused, spread, upsert } from "../lib/env.js";
import { scenario } from "../lib/scenario.js";

scenario("resource-token", async (t) => {
  const container = await newContainer(t);
  await upsert(container, spread(10, 1));
  const { database } = container;
  const { user } = await database.users.create({ id: "ada" });
  await user.replace({ id: "lovelace" });
  const lovelace = database.user("lovelace");
  assert.deepEqual((await database.users.readAll().fetchAll()).resources.map((u) => u.id), ["lovelace"]);

  const grant = async (id, permissionMode, more) => {
    const body = { id, permissionMode, resource: container.url, ...more };
    return (await lovelace.permissions.create(body, { resourceTokenExpirySeconds: 600 })).resource;
  };
  const whole = await grant("whole", PermissionMode.Read);
  const part = await grant("part", PermissionMode.All, { resourcePartitionKey: ["key 3"] });
  const item = await grant("item", PermissionMode.Read, { resource: container.item("4", "key 4").url, resourcePartitionKey: ["key 4"] });
  assert.equal((await lovelace.permissions.readAll().fetchAll()).resources.length, 3);
  // A client accepts the permissions, or their tokens by the names of the resources.
  const by = (permission) => new CosmosClient({ endpoint, permissionFeed: [permission] }).database(database.id).container(container.id);
  const byToken = (permission) => new CosmosClient({ endpoint, resourceTokens: { [container.id]: permission._token } }).database(database.id).container(container.id);

  for (const reading of [by(whole), byToken(whole)]) {
    assert.equal((await reading.read()).resource.id, container.id);
    assert.equal((await reading.item("3", "key 3").read()).resource.v, 1);
    assert.equal((await reading.items.query("SELECT * FROM c").fetchAll()).resources.length, 10);
    await refused(reading.items.upsert({ id: "3", pk: "key 3", v: 2 }), 403);
    await refused(reading.delete(), 403);
  }
  for (const writing of [by(part), byToken(part)]) {
    await writing.items.upsert({ id: "3", pk: "key 3", v: 2 });
    assert.equal((await writing.items.query("SELECT * FROM c", { partitionKey: "key 3" }).fetchAll()).resources.length, 1);
    await refused(writing.item("4", "key 4").read(), 403);
    await refused(writing.items.query("SELECT * FROM c", { partitionKey: "key 4" }).fetchAll(), 403);
    await refused(writing.items.upsert({ id: "4", pk: "key 4", v: 2 }), 403);
  }
  const one = byToken(item);
  assert.equal((await one.item("4", "key 4").read()).resource.v, 1);
  await refused(one.item("3", "key 3").read(), 403);
  await refused(one.item("4", "key 4").delete(), 403);

  const read = by(whole);
  await lovelace.permission("whole").delete();
  await refused(read.item("3", "key 3").read(), 403);
  await lovelace.delete();
  await refused(byToken(part).item("3", "key 3").read(), 403);
  assert.equal((await container.item("3", "key 3").read()).resource.v, 2);
});
