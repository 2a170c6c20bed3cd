const { spawn } = require('child_process');

const COLORS = [36, 33, 32, 35, 34];
const scripts = process.argv.slice(2);

if (scripts.length === 0) {
  console.error('usage: node run_commands.js script1 script2 ...');
  process.exit(1);
}

const width = Math.max(...scripts.map((s) => s.length));
const children = scripts.map((script, i) => {
  const prefix = `\x1b[${COLORS[i % COLORS.length]}m${script.padEnd(width)} |\x1b[0m `;
  const child = spawn('npm', ['run', '--silent', script], {
    shell: process.platform === 'win32',
    env: { ...process.env, FORCE_COLOR: '1' },
  });
  for (const stream of [child.stdout, child.stderr]) {
    let rest = '';
    stream.on('data', (data) => {
      const lines = (rest + data).split('\n');
      rest = lines.pop();
      lines.forEach((l) => process.stdout.write(prefix + l + '\n'));
    });
    stream.on('end', () => rest && process.stdout.write(prefix + rest + '\n'));
  }
  child.on('exit', (code, signal) => {
    console.log(`${prefix}exited with ${signal || code}`);
    if (code) stopAll(code);
  });
  return child;
});

let stopping = false;
function stopAll(code = 0) {
  if (stopping) return;
  stopping = true;
  children.forEach((c) => c.exitCode === null && c.kill('SIGTERM'));
  process.exitCode = code;
}

process.on('SIGINT', () => stopAll());
