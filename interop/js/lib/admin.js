// The server's admin API: it splits and merges partitions, and injects faults. It is signed like
// everything else, as resource type "_changefeed" and the rest of the path as the link.
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

/** Makes the server refuse the next creates in a container with 429 and a time to wait. */
export function throttle(container, { count, retryAfterMilliseconds }) {
  return call("POST", ["faults"], {
    operation: "create document", database: container.database.id, container: container.id, count,
    status: 429, subStatus: 3200, retryAfterMs: retryAfterMilliseconds,
  });
}

/** Ends all faults. */
export const clearFaults = () => call("DELETE", ["faults"]);
