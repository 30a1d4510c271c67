// Runs the measurements of notices.ts, one JSON line each: node run.mjs NODE_HOURS FAULTS LIMIT,SECONDS… [< frames of api/frames]

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const [hours, each] = process.argv.slice(2, 4).map(Number);
const { module } = await runnerImport(fileURLToPath(new URL("notices.ts", import.meta.url)), {
  configFile: false,
});
const text = readFileSync(0, "utf8").trim();
for (const rule of process.argv.slice(4)) {
  const [limit, begins] = rule.split(",").map(Number);
  const started = Date.now();
  const line = {
    limit,
    begins,
    quiet: module.quiet(limit, begins, hours, 17),
    faults: module.faults(limit, begins, each, 1000),
  };
  line.recorded = text ? module.recorded(limit, begins, JSON.parse(text)) : null;
  line.ms = Date.now() - started;
  console.log(JSON.stringify(line));
}
