#!/usr/bin/env node
const fs = require('fs');
const path = require('path');
const { marked } = require('marked');
const matter = require('gray-matter');

const SRC = process.argv[2] || 'content';
const OUT = process.argv[3] || 'public';

const layout = ({ title, body, nav }) => `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>${title}</title><link rel="stylesheet" href="/style.css"></head>
<body><nav>${nav}</nav><main>${body}</main></body>
</html>
`;

function walk(dir) {
  return fs.readdirSync(dir, { withFileTypes: true }).flatMap((e) => {
    const p = path.join(dir, e.name);
    return e.isDirectory() ? walk(p) : [p];
  });
}

fs.rmSync(OUT, { recursive: true, force: true });
fs.mkdirSync(OUT, { recursive: true });

const pages = walk(SRC)
  .filter((f) => f.endsWith('.md'))
  .map((file) => {
    const { data, content } = matter(fs.readFileSync(file, 'utf8'));
    const url = '/' + path.relative(SRC, file).replace(/\\/g, '/').replace(/\.md$/, '.html');
    return { url, title: data.title || path.basename(file, '.md'), draft: data.draft, content };
  })
  .filter((p) => !p.draft);

const nav = pages.map((p) => `<a href="${p.url}">${p.title}</a>`).join(' ');
for (const page of pages) {
  const target = path.join(OUT, page.url);
  fs.mkdirSync(path.dirname(target), { recursive: true });
  fs.writeFileSync(target, layout({ title: page.title, body: marked.parse(page.content), nav }));
}
console.log(`${pages.length} pages written to ${OUT}`);
