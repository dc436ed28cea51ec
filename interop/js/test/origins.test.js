import { CosmosClient } from "@azure/cosmos";
import assert from "node:assert/strict";

import { endpoint, key, newContainer } from "../lib/env.js";
import { scenario } from "../lib/scenario.js";

const page = "http://localhost:3000"; // the server allows this origin

// A browser would send these requests. It first asks, without a signature, for the headers that
// the SDK is about to send, and shows the page only answers that allow its origin.
scenario("web-page", async (t) => {
  const container = await newContainer(t);
  const preflight = (origin) =>
    fetch(new URL(`dbs/${container.database.id}/colls/items/docs`, endpoint), {
      method: "OPTIONS",
      headers: {
        origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,x-ms-date,x-ms-documentdb-partitionkey,x-ms-version",
      },
    });
  const allowed = await preflight(page);
  assert.ok(allowed.ok, `the preflight was answered with ${allowed.status}`);
  assert.equal(allowed.headers.get("access-control-allow-origin"), page);
  assert.match(allowed.headers.get("access-control-allow-methods"), /POST/);
  assert.match(allowed.headers.get("access-control-allow-headers"), /x-ms-documentdb-partitionkey/);
  const other = await preflight("http://localhost:3001");
  assert.ok(!other.ok && !other.headers.has("access-control-allow-origin"), "the page of another origin is allowed");

  // The SDK's requests carry the origin, and their answers allow it.
  const answers = [];
  const client = new CosmosClient({
    endpoint,
    key,
    plugins: [
      {
        on: "request",
        plugin: async (context, _diagnostics, next) => {
          context.headers = { ...context.headers, origin: page };
          const answer = await next(context);
          answers.push(answer.headers["access-control-allow-origin"]);
          return answer;
        },
      },
    ],
  });
  const items = client.database(container.database.id).container("items").items;
  await items.upsert({ id: "1", pk: "a", v: 1 });
  const { resources } = await items.query("SELECT VALUE c.v FROM c").fetchAll();
  assert.deepEqual(resources, [1]);
  assert.ok(answers.length >= 2 && answers.every((origin) => origin === page), `the answers allow ${answers}`);
});
