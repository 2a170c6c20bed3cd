// Numbers of the page: first paint and bytes with many rows, the memory of its server, and what it adds to runs.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, readlinkSync } from "node:fs";

const PAGES = ["/waiting", "/runs", "/tests", "/tools", "/agents"];
// Times that each page is painted; the first one of all also starts the connection.
const PAINTS = 5;
const PAGES_READ = 30;
// Runs with and without the page, in turns of ten.
const TURNS = 4;
const RUNS = 10;
const KIB = 1024;

export const median = (all) => all.toSorted((one, two) => one - two)[Math.floor(all.length / 2)];

/** Private memory of a process in KiB: all of it, and that of its own program's file, which holds relocations that every hotcell process has. */
function privateMemory(process) {
  const program = readlinkSync(`/proc/${process}/exe`);
  let [all, ofProgram, isProgram] = [0, 0, false];
  for (const line of readFileSync(`/proc/${process}/smaps`, "utf8").split("\n")) {
    const mapping = line.match(/^[0-9a-f]+-[0-9a-f]+ (?:\S+ +){4}(.*)$/);
    if (mapping) isProgram = mapping[1] === program;
    const size = line.match(/^Private_(?:Clean|Dirty): +(\d+) kB$/);
    if (size) {
      all += Number(size[1]);
      if (isProgram) ofProgram += Number(size[1]);
    }
  }
  return { all, own: all - ofProgram };
}

/** Milliseconds of a run of the program in a state folder. */
function run(hotcell, state) {
  const begin = performance.now();
  const ended = spawnSync(hotcell, ["run", "--quiet", "--", "true"], { env: { ...process.env, XDG_STATE_HOME: state }, stdio: "ignore" });
  assert.equal(ended.status, 0, "a run");
  return performance.now() - begin;
}

/** Measures the page on a state folder with many rows; returns rows of a table: what, measured, target, met. */
export async function numbers(browser, hotcell, many, state) {
  const rows = [];
  const mib = (kib) => `${(kib / KIB).toFixed(1)} MiB`;
  const memory = (when) => {
    const { all, own } = privateMemory(many.child.pid);
    const built = "beside what it shares with the program's file";
    rows.push([`private memory of the page's server, ${when}`, `${mib(own)} ${built}; ${mib(all)} in all`, "8 MiB", own <= 8 * KIB]);
  };
  memory("at its start");
  const there = await (await browser.newContext()).newPage();
  await there.goto(many.links.decide);
  await there.waitForURL(/\/waiting$/);
  assert.match(await there.locator("nav .count").innerText(), /^100\d|^10\d\d/, "all of them are counted");
  for (const address of PAGES) {
    const paints = [];
    let bytes = 0;
    for (let n = 0; n < PAINTS; n += 1) {
      const answer = await there.goto(new URL(address, many.links.address).href);
      bytes = (await answer.body()).length;
      await there.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length > 0);
      paints.push(await there.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime));
    }
    assert.ok(bytes < 150_000, `${address} has ${bytes} bytes`);
    rows.push([`${address}: bytes`, String(bytes), "150,000", bytes < 150_000]);
    const [middle, most] = [median(paints), Math.max(...paints)].map(Math.round);
    rows.push([`${address}: first paint, median of ${PAINTS} and largest`, `${middle} and ${most} ms`, "300 ms", middle < 300]);
  }
  for (let n = 0; n < PAGES_READ; n += 1) {
    await there.goto(new URL(PAGES[n % PAGES.length], many.links.address).href);
  }
  memory(`after ${PAGES_READ} more pages`);
  await there.goto(new URL("/runs", many.links.address).href);
  const [beside, alone] = [[], []];
  run(hotcell, state);
  for (let turn = 0; turn < TURNS; turn += 1) {
    for (let n = 0; n < RUNS; n += 1) beside.push(run(hotcell, state));
    many.child.kill("SIGSTOP");
    for (let n = 0; n < RUNS; n += 1) alone.push(run(hotcell, state));
    many.child.kill("SIGCONT");
  }
  memory(`after ${2 * TURNS * RUNS} runs beside an open list`);
  const spread = (all) => median(all.toSorted((one, two) => one - two).slice(all.length / 2)) - median(all.toSorted((one, two) => one - two).slice(0, all.length / 2));
  const [one, two] = [median(beside), median(alone)];
  const said = `${one.toFixed(1)} and ${two.toFixed(1)} ms, ratio ${(one / two).toFixed(2)}; middle half within ${spread(alone).toFixed(1)} ms`;
  rows.push([`hotcell run -- true beside an open list, and with the page's server stopped`, said, "no difference", one - two < spread(alone)]);
  return rows;
}

/** The rows as a table. */
export function table(rows) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [
    line(["what", "measured", "target", "met"]),
    line(["---", "---", "---", "---"]),
    ...rows.map(([what, measured, target, met]) => line([what, measured, target, met ? "yes" : "no"])),
  ].join("\n");
}
