// A client of the server's admin API, which splits and merges partitions and injects faults. Its
// requests are signed with the resource type "_changefeed" and the rest of the path as the link.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";

import { endpoint, key } from "./env.js";

async function call(method, segments, body) {
  const link = segments.join("/");
  const date = new Date().toUTCString();
  const text = `${method.toLowerCase()}\n_changefeed\n${link}\n${date.toLowerCase()}\n\n`;
  const signature = createHmac("sha256", Buffer.from(key, "base64")).update(text).digest("base64");
  const url = new URL(`/_changefeed/${segments.map(encodeURIComponent).join("/")}`, endpoint);
  const answer = await fetch(url, {
    method,
    headers: { "x-ms-date": date, authorization: encodeURIComponent(`type=master&ver=1.0&sig=${signature}`) },
    ...(body && { body: JSON.stringify(body) }),
  });
  const content = await answer.text();
  assert.ok(answer.ok, `${method} ${url.pathname}: ${answer.status} ${content}`);
  return content ? JSON.parse(content) : undefined;
}

const partitionsOf = (container) => ["dbs", container.database.id, "colls", container.id, "partitions"];

/** Splits the first partition of a container in its middle. */
export async function splitFirst(container) {
  const { partitions } = await call("GET", partitionsOf(container));
  const made = await call("POST", [...partitionsOf(container), partitions[0].id, "split"]);
  assert.equal(made.partitions.length, 2);
}

/** Merges the first two partitions of a container. */
export async function mergeFirst(container) {
  const { partitions } = await call("GET", partitionsOf(container));
  const made = await call("POST", [...partitionsOf(container), partitions[0].id, "merge"]);
  assert.equal(made.partitions.length, 1);
}

/**
 * Makes the server refuse three of ten creates in a container with 429 and a retry delay. The
 * returned function stops that and returns the number of refused creates.
 */
export async function throttle(container, retryAfterMs) {
  const { id } = await call("POST", ["faults"], {
    operation: "create document", database: container.database.id, container: container.id, probability: 0.3,
    status: 429, subStatus: 3200, retryAfterMs,
  });
  return async () => {
    const { faults } = await call("GET", ["faults"]);
    const { hits } = faults.find((f) => f.id === id);
    await call("DELETE", ["faults", id]);
    return hits;
  };
}
