const { execSync } = require('child_process');

const WEBHOOK = process.env.SLACK_WEBHOOK_URL;
const ENV_NAME = process.argv[2] || 'staging';

const git = (cmd) => execSync(`git ${cmd}`, { encoding: 'utf8' }).trim();

async function main() {
  if (!WEBHOOK) throw new Error('SLACK_WEBHOOK_URL is not set');
  const sha = git('rev-parse --short HEAD');
  const author = git('log -1 --pretty=%an');
  const subject = git('log -1 --pretty=%s');
  let remote = git('config --get remote.origin.url').replace(/\.git$/, '');
  remote = remote.replace(/^git@([^:]+):/, 'https://$1/');

  const body = {
    text: `Deployed ${sha} to ${ENV_NAME}`,
    blocks: [
      { type: 'header', text: { type: 'plain_text', text: `:rocket: Deployed to ${ENV_NAME}` } },
      {
        type: 'section',
        fields: [
          { type: 'mrkdwn', text: `*Commit*\n<${remote}/commit/${sha}|${sha}>` },
          { type: 'mrkdwn', text: `*Author*\n${author}` },
        ],
      },
      { type: 'context', elements: [{ type: 'mrkdwn', text: subject }] },
    ],
  };

  const res = await fetch(WEBHOOK, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!res.ok) throw new Error(`Slack answered ${res.status}: ${await res.text()}`);
}

main().catch((e) => {
  console.error(e.message);
  process.exit(1);
});
