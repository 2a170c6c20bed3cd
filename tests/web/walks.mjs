// A reviewer's walks, by keyboard and by mouse: from a quarantined plugin to its released run, and from an agent's fix to its commit. Counted are the time of the
// machine, the steps, and the characters that a person has to read.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import readline from "node:readline";

// An estimate of a person's time, in seconds: of a key, of pointing, and of the thought before each step (Card, Moran and Newell, 1983); of a character that is read
// (Brysbaert, 2019: 238 words a minute, of 5.7 characters with the space behind them).
const KEY = 0.28;
const POINT = 1.1;
const THOUGHT = 1.35;
const READ = 60 / (238 * 5.7);
const REASON = "read to the end";

const PLUGIN = (way) => `import os
import subprocess


def clean(folder):
    """Removes what a build by ${way} left."""
    os.system('rm -rf ' + folder)


clean('/home/')
print(subprocess.check_output(['uname', '-s'], text=True).strip())
`;
const WORKFLOW = (way) => `name: tests
on: [push]
jobs:
  ${way}:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: pytest -q
`;

/** Hands and eyes of a person, which count what they do. */
class Person {
  constructor(page) {
    this.page = page;
    this.steps = 0;
    this.keys = 0;
    this.points = 0;
    this.read = 0;
  }

  async key(name) {
    this.steps += 1;
    this.keys += 1;
    await this.page.keyboard.press(name);
  }

  async type(text) {
    this.steps += 1;
    this.keys += text.length;
    await this.page.keyboard.type(text);
  }

  async click(selector) {
    const box = await this.page.locator(selector).first().boundingBox();
    assert.ok(box, `${selector} is seen`);
    this.steps += 1;
    this.points += 1;
    await this.page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
  }

  /** Presses Tab until the focus is there. */
  async tabTo(selector) {
    this.steps += 1;
    for (let n = 0; n < 60; n += 1) {
      this.keys += 1;
      await this.page.keyboard.press("Tab");
      if (await this.page.evaluate((is) => document.activeElement.matches(is), selector)) return;
    }
    throw new Error(`${selector} is not reached by Tab`);
  }

  /** Counts what has to be read. */
  async reads(...selectors) {
    for (const selector of selectors) {
      for (const text of await this.page.locator(selector).allInnerTexts()) this.read += text.trim().length;
    }
  }

  /** Goes to the end of the text, where a yes becomes possible after a moment. */
  async toTheEnd(way) {
    for (let n = 0; n < 20; n += 1) {
      if (way === "keyboard") await this.key("End");
      else {
        this.steps += 1;
        this.points += 1;
        await this.page.mouse.wheel(0, 20_000);
      }
      const yes = this.page.locator("#end button.yes:enabled");
      if (await yes.waitFor({ timeout: 3000 }).then(() => true, () => false)) return;
    }
    throw new Error("the end of the text is not reached");
  }

  seconds() {
    return this.steps * THOUGHT + this.keys * KEY + this.points * POINT + this.read * READ;
  }
}

/** An MCP client of one server, over its standard streams. */
export class Agent {
  static async start(hotcell, env) {
    const agent = new Agent(hotcell, env);
    await agent.ask("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "agent", version: "1" } });
    agent.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`);
    return agent;
  }

  constructor(hotcell, env) {
    this.child = spawn(hotcell, ["mcp"], { env, stdio: ["pipe", "pipe", "ignore"] });
    this.waiting = new Map();
    this.last = 0;
    readline.createInterface({ input: this.child.stdout }).on("line", (line) => {
      const said = JSON.parse(line);
      this.waiting.get(said.id)?.(said);
    });
  }

  ask(method, params) {
    this.last += 1;
    const id = this.last;
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    return new Promise((ready) => this.waiting.set(id, ready));
  }

  async call(name, given) {
    const said = await this.ask("tools/call", { name, arguments: given });
    assert.ok(said.result && !said.result.isError, `${name}: ${JSON.stringify(said).slice(0, 600)}`);
    return said.result.structuredContent;
  }

  end() {
    this.child.kill();
  }
}

/** Asks to commit a workflow of CI to a folder, which the configuration allows; returns the question, to be repeated, and the file. */
export async function asksToCommit(agent, project, job) {
  mkdirSync(project);
  const name = ".github/workflows/tests.yml";
  const made = await agent.call("workspace_create", { folder: project, files: [{ path: name, content: WORKFLOW(job) }] });
  const commit = () => agent.call("workspace_commit", { workspace_id: made.workspace_id });
  assert.ok((await commit()).approval, "a person has to agree");
  const file = path.join(project, name);
  assert.ok(!existsSync(file));
  return { commit, file };
}

async function toRelease({ hotcell, env, folder, open, way, picture }) {
  writeFileSync(path.join(folder, "plugin.py"), PLUGIN(way));
  const run = () => spawnSync(hotcell, ["run", "--quiet", "--lang", "python", "plugin.py"], { env, cwd: folder, encoding: "utf8" });
  assert.equal(run().status, 125, "it is refused");
  const begin = performance.now();
  const person = new Person(await open());
  const link = "a[href^='/waiting/item/']";
  await person.reads("#live tbody tr");
  if (way === "keyboard") await person.tabTo(link).then(() => person.key("Enter"));
  else await person.click(link);
  await person.page.waitForURL(/\/waiting\/item\//);
  await person.reads(".facts dd:nth-of-type(1)", "[aria-label='Findings of the guard'] tbody tr", "#part .text > div");
  await picture?.(person.page, "walk-release");
  await person.toTheEnd(way);
  if (way === "keyboard") await person.tabTo("#end input[name=reason]");
  else await person.click("#end input[name=reason]");
  await person.type(REASON);
  if (way === "keyboard") await person.tabTo("#end button.yes").then(() => person.key("Enter"));
  else await person.click("#end button.yes");
  await person.page.locator(".facts", { hasText: "Released" }).waitFor();
  const ended = run();
  assert.equal(ended.status, 0, ended.stderr);
  return { person, machine: (performance.now() - begin) / 1000 };
}

async function toCommit({ hotcell, env, folder, open, way, picture }) {
  const agent = await Agent.start(hotcell, env);
  const { commit, file } = await asksToCommit(agent, path.join(folder, "project"), way);
  const begin = performance.now();
  const person = new Person(await open());
  const link = "a[href^='/waiting/request/']";
  await person.reads("#live tbody tr");
  if (way === "keyboard") await person.tabTo(link).then(() => person.key("Enter"));
  else await person.click(link);
  await person.page.waitForURL(/\/waiting\/request\//);
  await person.reads(".facts dd:nth-of-type(1)", ".facts dd:nth-of-type(2)", ".facts dd:nth-of-type(3)", "#part .text > div");
  await picture?.(person.page, "walk-commit");
  await person.toTheEnd(way);
  if (way === "keyboard") await person.tabTo("#end button.yes").then(() => person.key("Enter"));
  else await person.click("#end button.yes");
  await person.page.locator(".facts", { hasText: /approved/ }).waitFor();
  await commit();
  assert.ok(existsSync(file), "the fix is in the folder");
  agent.end();
  return { person, machine: (performance.now() - begin) / 1000 };
}

export const WALKS = { "from a quarantined plugin to its released run": toRelease, "from an agent's fix to its commit": toCommit };

/** One walk in a state folder of its own; returns a row: what, measured, target, met. */
export async function walk(name, way, { browser, hotcell, served, folder, picture }) {
  mkdirSync(path.join(folder, "config", "hotcell"), { recursive: true });
  writeFileSync(path.join(folder, "config", "hotcell", "config.toml"), `[mcp]\ncommit = [${JSON.stringify(folder)}]\n`);
  const state = path.join(folder, "state");
  const env = { ...process.env, XDG_STATE_HOME: state, XDG_CONFIG_HOME: path.join(folder, "config") };
  const { child, links } = await served(state, env);
  const context = await browser.newContext();
  const open = async () => {
    const page = await context.newPage();
    await page.goto(links.decide);
    await page.waitForURL(/\/waiting$/);
    return page;
  };
  try {
    const { person, machine } = await WALKS[name]({ hotcell, env, folder, open, way, picture });
    const whole = machine + person.seconds();
    const counted = `${person.steps} steps with ${person.keys} keys and ${person.points} times of pointing, ${person.read} characters to read`;
    return [`${name}, by ${way}`, `${machine.toFixed(1)} s of the machine; ${counted}: about ${whole.toFixed(0)} s`, "60 s", whole < 60];
  } finally {
    await context.close();
    child.kill();
  }
}
