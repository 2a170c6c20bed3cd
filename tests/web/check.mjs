// Walks through the page of hotcell as a person does, in Chromium: every page at two widths and in two colour schemes, with a
// screenshot and axe-core; the way from a refused artifact to its release; and what other sites can do.
// usage: node check.mjs HOTCELL FOLDER-FOR-SCREENSHOTS STATE-WITH-MANY-ROWS   (in a folder with playwright-core and axe-core; state in
// $XDG_STATE_HOME)
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import { numbers, table } from "./numbers.mjs";
import { Agent, WALKS, asksToCommit, walk } from "./walks.mjs";

const require = createRequire(path.join(process.cwd(), "x.js"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [hotcell, pictures, load] = process.argv.slice(2);
let passed = 0;
let failed = 0;

async function part(name, work) {
  try {
    await work();
    passed += 1;
    console.log(`ok      ${name}`);
  } catch (why) {
    failed += 1;
    console.log(`FAILED  ${name}: ${why.stack ?? why}`);
  }
}

async function served(state, env = { ...process.env, XDG_STATE_HOME: state }) {
  const child = spawn(hotcell, ["web", "--json", "--quiet"], { stdio: ["ignore", "pipe", "inherit"], env });
  let text = "";
  for await (const piece of child.stdout) {
    text += piece;
    if (text.includes("\n")) break;
  }
  return { child, links: JSON.parse(text) };
}

// A request of an agent waits.
const agent = await Agent.start(hotcell, process.env);
await asksToCommit(agent, path.join(process.env.HOME, "project"), "tests");
agent.end();

const { child, links } = await served(process.env.XDG_STATE_HOME);
const origin = new URL(links.address).origin;
const port = new URL(links.address).port;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--host-resolver-rules=MAP rebound.example 127.0.0.1"],
});
const context = await browser.newContext();
const errors = [];
const page = await context.newPage();
page.on("console", (said) => said.type() === "error" && errors.push(said.text()));
page.on("pageerror", (why) => errors.push(String(why)));

async function faults(where) {
  await where.evaluate(axe);
  const found = await where.evaluate(() => globalThis.axe.run());
  const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
  return serious.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3).join(" | ")}`);
}

await part("a link begins a session, once", async () => {
  await page.goto(links.decide);
  await page.waitForURL(`${origin}/waiting`);
  const again = await (await browser.newContext()).newPage();
  assert.equal((await again.goto(links.decide)).status(), 410);
});

const hrefOf = (text) => page.locator("tr", { hasText: text }).locator("a[href^='/waiting/']").first().getAttribute("href");
const item = await hrefOf("Allow it");
const setup = await hrefOf("setup.py");
const long = await hrefOf("one-line.py");
const suggestion = await page.locator("a[href^='/waiting/suggestion/']").first().getAttribute("href");
const run = await (async () => {
  await page.goto(`${origin}/runs`);
  return page.locator("tr", { hasText: "exited 3" }).locator("a[href^='/runs/']").getAttribute("href");
})();
const request = await (async () => {
  await page.goto(`${origin}/waiting`);
  return page.locator("a[href^='/waiting/request/']").first().getAttribute("href");
})();
const pages = {
  waiting: "/waiting", request, item, long, suggestion, held: "/waiting/tools/weather", runs: "/runs", run, tests: "/tests", agents: "/agents", tools: "/tools", host: "/doctor",
  usage: "/usage",
};
for (const [name, address] of Object.entries(pages)) {
  for (const [width, height] of [[1280, 900], [360, 780]]) {
    for (const scheme of ["light", "dark"]) {
      await part(`${name} at ${width}, ${scheme}`, async () => {
        await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
        await page.setViewportSize({ width, height });
        const answer = await page.goto(origin + address);
        assert.equal(answer.status(), 200);
        assert.ok((await answer.body()).length < 150_000, "the page is too large");
        await page.screenshot({ path: path.join(pictures, `${name}-${width}-${scheme}.png`) });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `it is ${wide} pixels wider than the screen`);
        assert.deepEqual(await faults(page), []);
      });
    }
  }
}
await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
await page.setViewportSize({ width: 1280, height: 900 });

// Those of docs/src, of the height that the content has.
await part("pictures for the documents", async () => {
  const there = await context.newPage();
  await there.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await there.setViewportSize({ width: 960, height: 700 });
  for (const [name, address, selector] of [
    ["web-waiting", "/waiting", "body"], ["web-item", setup, "#text"], ["web-request", request, "main"], ["web-held", "/waiting/tools/weather", "main"],
    ["web-tests", "/tests", "body"],
  ]) {
    await there.goto(origin + address);
    const yes = there.locator("#end button.yes");
    if (await yes.count()) {
      await yes.scrollIntoViewIfNeeded();
      await there.locator("#end button.yes:enabled").waitFor();
    }
    await there.evaluate(() => scrollTo(0, 0));
    const box = await there.locator(selector).boundingBox();
    const clip = { x: 0, y: Math.max(0, box.y - 16), width: 960, height: Math.min(box.height + 32, 1300) };
    await there.screenshot({ path: path.join(pictures, `${name}.png`), fullPage: true, clip });
  }
  await there.close();
});

await part("nothing that an artifact says is obeyed", async () => {
  await page.goto(origin + item);
  assert.match(await page.title(), /hotcell$/);
  assert.equal(await page.locator("#part script, #part b, #part img").count(), 0);
  assert.ok((await page.locator("#part mark").count()) > 0);
});

await part("no has the focus, and yes waits for the end", async () => {
  await page.goto(origin + item);
  assert.equal(await page.evaluate(() => document.activeElement.className), "no");
  for (let n = 0; n < 60 && (await page.locator("button.yes").count()) === 0; n += 1) {
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    await page.waitForTimeout(200);
    if (await page.locator("#next").count()) await page.locator("#next").scrollIntoViewIfNeeded();
  }
  const yes = page.locator("button.yes");
  await page.evaluate(() => scrollTo(0, 0));
  await page.waitForTimeout(100);
  assert.equal(await yes.isEnabled(), false, "before the end");
  await yes.scrollIntoViewIfNeeded();
  await page.waitForTimeout(1000);
  assert.equal(await yes.isEnabled(), true, "at the end");
  await page.screenshot({ path: path.join(pictures, "item-end-1280-light.png") });
});

await part("an artifact is released by keyboard", async () => {
  await page.locator("#end input[name=reason]").focus();
  await page.keyboard.type("read to the end");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForLoadState("load");
  assert.match(await page.locator(".facts").innerText(), /released[\s\S]*over web/);
});

/** Presses Tab until the focus is on an element that `is` describes; the number of presses. */
async function tabTo(there, is) {
  for (let n = 1; n < 120; n += 1) {
    await there.keyboard.press("Tab");
    if (await there.evaluate((selector) => document.activeElement.matches(selector), is)) return n;
  }
  throw new Error(`${is} is not reached by Tab`);
}

await part("a policy is allowed with the keyboard alone, from the list to the end", async () => {
  await page.goto(`${origin}/waiting`);
  await tabTo(page, "a[href^='/waiting/suggestion/']");
  await page.keyboard.press("Enter");
  await page.waitForURL(/suggestion/);
  assert.equal(await page.evaluate(() => document.activeElement.className), "no");
  await page.screenshot({ path: path.join(pictures, "suggestion-whole-1280-light.png"), fullPage: true });
  await page.keyboard.press("End");
  await page.waitForTimeout(1000);
  await tabTo(page, "#end button.yes");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/waiting$/);
  const left = await page.locator("a[href^='/waiting/suggestion/']").count();
  assert.equal(left, 1, "one of two suggestions waits");
});

await part("a stale tab changes nothing", async () => {
  const tabs = [await context.newPage(), await context.newPage()];
  const [address] = await page.locator("a[href^='/waiting/suggestion/']").evaluateAll((all) => all.map((one) => one.href));
  for (const tab of tabs) await tab.goto(address);
  const posted = await tabs.reduce(async (before, tab) => {
    const all = await before;
    const [answer] = await Promise.all([
      tab.waitForResponse((one) => one.request().method() === "POST"),
      tab.locator("form.no button").click(),
    ]);
    return [...all, answer.status()];
  }, Promise.resolve([]));
  assert.deepEqual(posted, [303, 404]);
  for (const tab of tabs) await tab.close();
  // The second answer is an error of the network for the console.
  errors.splice(0, errors.length, ...errors.filter((text) => !text.includes("404")));
});

await part("tools of a server are accepted after they were shown", async () => {
  await page.goto(`${origin}/waiting/tools/weather`);
  assert.equal(await page.locator("#part b").count(), 0);
  assert.ok((await page.locator("#part mark").count()) > 0);
  const yes = page.locator("button.yes");
  await yes.scrollIntoViewIfNeeded();
  await page.waitForTimeout(1000);
  await yes.click();
  await page.waitForLoadState("load");
  assert.match(await page.locator("main").innerText(), /Nothing is held/);
});

await part("tests that end differently over the same files are flaky", async () => {
  await page.goto(`${origin}/tests`);
  const row = page.locator("tr", { hasText: "test_moody" });
  assert.match(await row.innerText(), /flaky/);
  assert.equal(await page.locator("tr", { hasText: "test_good" }).count(), 0);
});

await part("reading and deciding need no script", async () => {
  const plain = await browser.newContext({ javaScriptEnabled: false, storageState: await context.storageState() });
  const there = await plain.newPage();
  await there.goto(`${origin}/waiting`);
  const other = there.locator("a[href^='/waiting/item/']").first();
  await other.click();
  await there.locator("form.no button").click();
  assert.match(await there.locator(".facts").innerText(), /rejected/);
  await plain.close();
});

await part("lists follow what happens", async () => {
  await page.goto(`${origin}/runs`);
  await page.waitForTimeout(2500);
  const before = await page.locator("tbody tr").count();
  spawn(hotcell, ["run", "--quiet", "--", "true"], { stdio: "ignore" });
  await page.waitForFunction((rows) => document.querySelectorAll("tbody tr").length > rows, before, { timeout: 20_000 });
});

await part("another port and another name get nothing", async () => {
  const seen = [];
  const enemy = http.createServer((request, answer) => {
    seen.push(request.headers.cookie);
    answer.setHeader("Content-Type", "text/html");
    answer.end(`<form method=post action="${origin}/leave"><button>x</button></form><iframe src="${origin}/waiting"></iframe>`);
  });
  await new Promise((ready) => enemy.listen(0, "127.0.0.1", ready));
  const at = enemy.address().port;
  const there = await context.newPage();
  for (const host of ["127.0.0.1", "localhost", "x.localhost", "rebound.example"]) {
    await there.goto(`http://${host}:${at}/`);
    // Clickjacking: the page is in no frame, and its buttons are not there.
    const inside = there.frames().filter((frame) => frame !== there.mainFrame());
    for (const frame of inside) assert.equal(await frame.locator("button, a, main").count(), 0, `framed by ${host}`);
    const read = await there.evaluate((address) => fetch(address, { credentials: "include" }).then(() => "read", () => "refused"), `${origin}/waiting`);
    assert.equal(read, "refused", host);
    const [answer] = await Promise.all([
      there.waitForResponse((one) => one.url() === `${origin}/leave`),
      there.locator("button").click(),
    ]);
    assert.equal(answer.status(), 403, host);
  }
  assert.deepEqual(seen.filter(Boolean), [], "no cookie was sent there");
  const rebound = await there.goto(`http://rebound.example:${port}/waiting`);
  assert.equal(rebound.status(), 421);
  await there.close();
  enemy.close();
});

const measured = [];
await part("pages are short with 10,000 runs and 1,000 waiting artifacts", async () => {
  const many = await served(load);
  try {
    measured.push(...(await numbers(browser, hotcell, many, load)));
  } finally {
    many.child.kill();
  }
});

for (const name of Object.keys(WALKS)) {
  for (const way of ["keyboard", "mouse"]) {
    await part(`${name}, by ${way}`, async () => {
      const folder = mkdtempSync(path.join(process.cwd(), "walk-"));
      const picture = (there, file) => there.screenshot({ path: path.join(pictures, `${file}-1280-light.png`), fullPage: true });
      measured.push(await walk(name, way, { browser, hotcell, served, folder, picture }));
    });
  }
}

await part("no error is in the browser's console", async () => assert.deepEqual(errors, []));

await browser.close();
child.kill();
console.log(`\n${table(measured)}\n`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
