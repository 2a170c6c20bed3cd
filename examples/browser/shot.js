// Opens page.html in the system's Chromium, clicks, checks what came of it, and takes a picture.
const assert = require("node:assert");
const { chromium } = require("playwright-core");

const EXECUTABLE = process.env.CHROMIUM ?? "/usr/lib/chromium/chromium";

async function main() {
  // Chromium's own sandbox needs namespaces that the outer sandbox refuses. The outer one holds.
  const browser = await chromium.launch({
    executablePath: EXECUTABLE,
    chromiumSandbox: false,
    args: ["--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking"],
  });
  try {
    const page = await browser.newPage({ viewport: { width: 640, height: 400 } });
    await page.goto(`file://${__dirname}/page.html`);
    await page.getByRole("button", { name: "Add" }).click();
    await page.getByRole("button", { name: "Add" }).click();
    assert.deepStrictEqual(await page.locator("li").allTextContents(), ["order 1", "order 2"]);
    await page.screenshot({ path: "orders.png" });
    console.log(`two orders, seen by Chromium ${browser.version()}`);
  } finally {
    await browser.close();
  }
}

main();
