const { writeFile } = require('fs/promises');
const cheerio = require('cheerio');

const start = new URL(process.argv[2] || 'http://localhost:3000/');
const limit = Number(process.argv[3] || 500);
const seen = new Map();
const queue = [start.href];

async function visit(href) {
  const res = await fetch(href, { redirect: 'follow' });
  if (!res.ok) {
    console.warn(res.status, href);
    return;
  }
  if (!(res.headers.get('content-type') || '').includes('text/html')) return;
  seen.set(href, res.headers.get('last-modified'));
  const $ = cheerio.load(await res.text());
  $('a[href]').each((_, el) => {
    if (($(el).attr('rel') || '').includes('nofollow')) return;
    let url;
    try {
      url = new URL($(el).attr('href'), href);
    } catch {
      return;
    }
    url.hash = '';
    url.search = '';
    if (url.origin === start.origin && !seen.has(url.href) && !queue.includes(url.href)) queue.push(url.href);
  });
}

(async () => {
  while (queue.length && seen.size < limit) {
    await visit(queue.shift());
  }
  const rows = [...seen].sort().map(([loc, mod]) => {
    const lastmod = mod ? `<lastmod>${new Date(mod).toISOString().slice(0, 10)}</lastmod>` : '';
    return `  <url><loc>${loc.replace(/&/g, '&amp;')}</loc>${lastmod}</url>`;
  });
  await writeFile(
    'sitemap.xml',
    `<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n${rows.join('\n')}\n</urlset>\n`
  );
  console.log(`${rows.length} urls`);
})();
