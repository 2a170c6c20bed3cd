const fs = require('fs/promises');
const path = require('path');
const puppeteer = require('puppeteer');

const SIZES = { desktop: [1440, 900], tablet: [820, 1180], phone: [390, 844] };

async function main() {
  const urls = (await fs.readFile(process.argv[2] || 'urls.txt', 'utf8')).split('\n').map((s) => s.trim()).filter(Boolean);
  const out = 'screenshots';
  await fs.mkdir(out, { recursive: true });

  const browser = await puppeteer.launch({ headless: 'new' });
  try {
    for (const url of urls) {
      const slug = url.replace(/^https?:\/\//, '').replace(/[^a-z0-9]+/gi, '_').replace(/_+$/, '');
      for (const [name, [width, height]] of Object.entries(SIZES)) {
        const page = await browser.newPage();
        await page.setViewport({ width, height, deviceScaleFactor: 2 });
        try {
          await page.goto(url, { waitUntil: 'networkidle2', timeout: 30000 });
          const file = path.join(out, `${slug}-${name}.png`);
          await page.screenshot({ path: file, fullPage: true });
          console.log('saved', file);
        } catch (err) {
          console.error(`${url} (${name}): ${err.message}`);
        } finally {
          await page.close();
        }
      }
    }
  } finally {
    await browser.close();
  }
}

main();
