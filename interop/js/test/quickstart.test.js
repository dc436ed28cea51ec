import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { scenario } from "../lib/scenario.js";

scenario("quickstart", async () => {
  for (const sample of ["readme.js", "cosmicworks.js", "changefeed.js", "versions.js"]) {
    const { stdout } = await promisify(execFile)(process.execPath, [fileURLToPath(new URL(`../samples/${sample}`, import.meta.url))]);
    assert.match(stdout, /\ndone\n$/, sample);
  }
});
