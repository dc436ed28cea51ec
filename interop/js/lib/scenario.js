// A scenario of interop/scenarios.json as a test of its name, whose outcome goes into the report.
// One that ends the process early is in no report, and the runner then calls it failed.
import { appendFileSync } from "node:fs";
import { test } from "node:test";

function report(line) {
  if (process.env.CHANGEFEED_REPORT) appendFileSync(process.env.CHANGEFEED_REPORT, line + "\n");
}

export function scenario(name, run) {
  test(name, { timeout: 120_000 }, async (t) => {
    try {
      await run(t);
    } catch (err) {
      report(`${name}\tfailed\t${String(err?.message ?? err).replace(/\s+/g, " ").slice(0, 300)}`);
      throw err;
    }
    report(`${name}\tok`);
  });
}
