// Runs a scenario of interop/scenarios.json as a test of its name and appends its outcome to the
// report. If a scenario ends the process, the report lacks it, and the runner counts it as failed.
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
