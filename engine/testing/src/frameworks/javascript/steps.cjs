
// The script `test` of package.json around the tests: what it runs before and after them, and its words for them.
const { spawnSync: spawnAndWait, spawn: spawnBeside } = require('node:child_process');

/** A shell's words as it makes them of this text. */
function expanded(words) {
  return words.flatMap((word) => {
    if (typeof word === 'string') return [word];
    const { status, stdout, stderr } = spawnAndWait('/bin/sh', ['-c', `printf '%s\\0' ${word.sh}`], { encoding: 'utf8' });
    if (status !== 0) throw new Error(`the script test of package.json has ${word.sh}, and a shell says: ${stderr}`);
    return stdout.split('\0').slice(0, -1);
  });
}

/** What npm sets for a script. */
function likeNpm() {
  const set = (name, value) => {
    if (typeof value === 'string' && process.env[name] === undefined) process.env[name] = value;
  };
  const folders = [];
  for (let folder = TOP; folder !== '/'; folder = path.dirname(folder)) folders.push(path.join(folder, 'node_modules/.bin'));
  process.env.PATH = [...folders, process.env.PATH ?? '/usr/bin:/bin'].join(':');
  set('npm_lifecycle_event', 'test');
  try {
    const { name, version, scripts } = JSON.parse(fs.readFileSync(path.join(TOP, 'package.json'), 'utf8'));
    set('npm_package_name', name);
    set('npm_package_version', version);
    set('npm_lifecycle_script', scripts?.test);
  } catch {
    // There is nothing to set.
  }
}

/** Has a shell run a text to its end. */
function inShell(text, name) {
  const since = Date.now();
  // Not a pipe: what goes on behind it would keep that open.
  const file = path.join(require('node:os').tmpdir(), `hotcell-script-${process.pid}`);
  const out = fs.openSync(file, 'wx+', 0o600);
  fs.unlinkSync(file);
  const { status, signal, error } = spawnAndWait('/bin/sh', ['-c', text], { stdio: ['ignore', out, out] });
  const size = fs.fstatSync(out).size;
  const tail = Buffer.alloc(Math.min(size, 60000));
  fs.readSync(out, tail, 0, tail.length, size - tail.length);
  fs.closeSync(out);
  process.stderr.write(`$ ${name}\n${tail}`);
  const why = error ? told(error) : signal ? `${signal} ended it` : `it ended with ${status}`;
  return { ok: status === 0, name, ms: Date.now() - since, why, said: plain(tail.toString('utf8')) };
}

/** Runs steps, as a shell joins them; stops where the tests begin, to be told whether they went well. */
function* walk(step, seen) {
  if (step.run !== undefined) {
    const went = seen.known.shift() ?? inShell(step.run, step.name);
    seen.done.push({ ...went, said: '' });
    seen.last = went.ok ? null : went;
    return went.ok;
  }
  if (step.all === undefined) {
    const ok = yield;
    seen.last = null;
    return ok;
  }
  let ok = true;
  for (const [joiner, one] of step.all) {
    if (joiner === '&&' ? ok : joiner === '||' ? !ok : true) ok = yield* walk(one, seen);
  }
  return ok;
}

class Script {
  /** `add` tells of a case that is no test: it is given its id, milliseconds, a text and a file. */
  constructor({ words, steps, done }, add) {
    this.words = words ?? [];
    // What has run already, in a process before this one, is not run again.
    this.seen = { last: null, known: done ?? [], done: [] };
    this.steps = walk(steps ?? {}, this.seen);
    this.add = add;
  }

  /** Runs what stands before the tests; whether they may begin. */
  before() {
    const { done } = this.steps.next();
    if (done) this.tell();
    return !done;
  }

  /** Runs what stands behind them; whether that went well. */
  after(ok) {
    const { done, value } = this.steps.next(ok);
    if (done && value === false) this.tell();
    return !(done && value === false && this.seen.last !== null);
  }

  tell() {
    const { last } = this.seen;
    if (last === null) return;
    const id = clip(`package.json::${last.name}`, 7000);
    const text = `${last.why}\n${last.said}`.trim();
    const end = clip(last.said.trim().split('\n').slice(-6).join('\n'), 800);
    emit('group', { id, status: 'errored', ms: last.ms, file: 'package.json', message: `${last.why}${end ? `: ${end}` : ''}`, ...placeIn(last.said) });
    this.add?.(id, 'errored', last.ms, text, 'package.json');
  }
}

/** Starts node with these arguments in place of this process, which ends as it does. */
function instead(args, ended) {
  const child = spawnBeside(process.execPath, args, { stdio: ['inherit', 'inherit', 'inherit', emit.pipe() ?? 'ignore'] });
  child.on('error', (error) => {
    process.stderr.write(`${told(error)}\n`);
    process.reallyExit(3);
  });
  child.on('exit', (code, signal) => {
    if (signal !== null) process.kill(process.pid, signal);
    else if (ended) ended(code);
    else process.reallyExit(code);
  });
}
