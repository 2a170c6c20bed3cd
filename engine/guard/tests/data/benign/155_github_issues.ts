#!/usr/bin/env ts-node
import { Octokit } from '@octokit/rest';

const token = process.env.GITHUB_TOKEN;
const [, , command, slug, ...rest] = process.argv;

if (!token || !slug?.includes('/')) {
  console.error('usage: GITHUB_TOKEN=... github_issues.ts list|create owner/repo [title] [body]');
  process.exit(2);
}

const octokit = new Octokit({ auth: token });
const [owner, repo] = slug.split('/');

async function list(): Promise<void> {
  const issues = await octokit.paginate(octokit.issues.listForRepo, { owner, repo, state: 'open', per_page: 100 });
  for (const issue of issues) {
    if (issue.pull_request) continue;
    const labels = issue.labels.map((l) => (typeof l === 'string' ? l : l.name)).join(', ');
    console.log(`#${issue.number}\t${issue.title}${labels ? ` [${labels}]` : ''}`);
  }
}

async function create(title: string, body = ''): Promise<void> {
  if (!title) throw new Error('a title is required');
  const { data } = await octokit.issues.create({ owner, repo, title, body });
  console.log(data.html_url);
}

const commands: Record<string, () => Promise<void>> = {
  list,
  create: () => create(rest[0], rest[1]),
};

(commands[command] ?? (() => Promise.reject(new Error(`unknown command ${command}`))))().catch((err: Error) => {
  console.error(err.message);
  process.exit(1);
});
