
// Runs what the script test has before and behind node's own test runner, and that with a shell's words; the runner itself is
// followed by a reporter of ours.

const { output, filter, plan } = words();
const script = new Script(plan, (...all) => late.push(all));
const late = [];

/** Adds to the report of a process that has ended. */
function add() {
  if (late.length === 0) return;
  const lines = fs.existsSync(output) ? fs.readFileSync(output, 'utf8').split('\n').slice(0, -2) : [];
  const cases = new Cases(output);
  cases.lines.push(...lines);
  for (const one of late) cases.add(...one);
  cases.end();
}

/** Whether a report has its end. */
const whole = () => {
  try {
    return JSON.parse(fs.readFileSync(output, 'utf8').split('\n').at(-2)).e === 'done';
  } catch {
    return false;
  }
};

likeNpm();
if (!script.before()) {
  emit('session', { tool: 'node', version: process.versions.node, ...runtime });
  add();
  leave(1);
}
instead(expanded(script.words), (code) => {
  // It did not come to its end, and that is all there is to say.
  if (!whole()) return process.reallyExit(code);
  const well = filter !== '' || script.after(code === 0);
  add();
  return leave(code === 0 && !well ? 1 : code);
});
