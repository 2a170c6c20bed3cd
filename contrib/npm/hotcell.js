#!/usr/bin/env node
// Starts the program of this platform's package with the same arguments, streams and signals, and ends as it ends.
"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const platform = `hotcell-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${platform}/bin/hotcell`);
} catch {
  console.error(`hotcell: error: there is no package ${platform}: hotcell runs on Linux (x64, arm64), and needs npm's optional dependencies`);
  process.exit(125);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`hotcell: error: ${program} cannot be started: ${error.message}`);
  process.exit(125);
});
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
