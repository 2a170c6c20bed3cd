#!/usr/bin/env node
import { execFileSync } from 'node:child_process';
import { globSync } from 'glob';
import { readFileSync, writeFileSync } from 'node:fs';

const kind = process.argv[2];
const KINDS = ['major', 'minor', 'patch'];
if (!KINDS.includes(kind)) {
  console.error(`usage: bump_version.mjs ${KINDS.join('|')}`);
  process.exit(1);
}

const git = (...args) => execFileSync('git', args, { encoding: 'utf8' }).trim();

if (git('status', '--porcelain')) {
  console.error('working tree is not clean');
  process.exit(1);
}

const root = JSON.parse(readFileSync('package.json', 'utf8'));
const parts = root.version.split('.').map(Number);
const i = KINDS.indexOf(kind);
parts[i] += 1;
parts.fill(0, i + 1);
const version = parts.join('.');

const files = ['package.json', ...globSync('packages/*/package.json')];
const names = new Set(files.map((f) => JSON.parse(readFileSync(f, 'utf8')).name));
for (const file of files) {
  const pkg = JSON.parse(readFileSync(file, 'utf8'));
  pkg.version = version;
  for (const group of ['dependencies', 'devDependencies', 'peerDependencies']) {
    for (const dep of Object.keys(pkg[group] ?? {})) {
      if (names.has(dep)) pkg[group][dep] = `^${version}`;
    }
  }
  writeFileSync(file, JSON.stringify(pkg, null, 2) + '\n');
}

execFileSync('npm', ['install', '--package-lock-only'], { stdio: 'inherit' });
git('add', ...files, 'package-lock.json');
git('commit', '-m', `chore: release v${version}`);
git('tag', '-a', `v${version}`, '-m', `v${version}`);
console.log(`v${version} created. Push with: git push --follow-tags`);
