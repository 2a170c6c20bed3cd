
// Has node's own test runner run files, each in a process of its own, and tells what it says. A file that ends before its
// tests did is one that passed, as node has it: not here.

const { output, filter, stop } = words();
// What follows are the files. The runner hands its own arguments on.
const files = process.argv.splice(1).slice(1);
const cases = new Cases(output);
const titles = filter.includes('::') ? filter.split('::').slice(1) : [];
const wanted = (id) => titles.length === 0 || id === filter || id.startsWith(`${filter}::`) || filter.startsWith(`${id}::`);
const names = titles.length > 0 ? titles.map((t) => new RegExp(`^${escape(t)}$`)) : filter !== '' && files.length > 0 && !files.includes(filter) ? [new RegExp(filter)] : [];

let bad = false;
let stack = []; // titles, as results come
let waiting = []; // titles, as tests begin
let file = '';
let known = new Map(); // found, and not done
let seen = 0;
let failed = false;
let stderr = '';

const key = (d) => `${d.line}:${d.column}:${d.nesting}:${d.name}`;
const left = (message) => message === 'test name does not match pattern';

function group(status, text) {
  bad ||= status === 'errored';
  emit('group', { id: file, status, ms: 0, file, ...crash(text) });
  cases.add(file, status, 0, text, file);
}

function done(d, passed) {
  const id = idOf(file, [...stack.slice(0, d.nesting), d.name]);
  const error = d.details?.error;
  if (d.details?.type === 'suite') {
    // Its tests have told what is wrong with them.
    if (!passed && error?.failureType === 'hookFailed') group('errored', `${d.name}: ${told(error.cause ?? error)}`);
    return;
  }
  // Where the title of a suite is asked for, node runs all of it.
  failed ||= !passed;
  if (left(d.skip) || !wanted(id)) return;
  const expected = d.skip !== undefined || d.todo !== undefined;
  const status = expected ? 'skipped' : passed ? 'passed' : 'failed';
  const text = status === 'failed' ? told(error?.cause ?? error) : undefined;
  const reason = [d.skip, d.todo].find((why) => typeof why === 'string' && why !== '');
  bad ||= status === 'failed';
  const ms = d.details?.duration_ms ?? 0;
  emit('start', { id, file, line: d.line });
  emit('end', { id, status, ms, ...(text ? crash(text) : { message: reason }) });
  cases.add(id, status, ms, text ?? reason, file, d.line);
}

function ended(d, passed) {
  const mentions = fs.readFileSync(d.file, 'utf8').includes('node:test');
  const said = stderr || 'its process ended with an exit code that is not 0';
  const open = [...known.values()].some((count) => count > 0);
  if (!passed && !failed) group('errored', said);
  else if (open) group('errored', 'it ended before all of its tests were done');
  else if (seen === 0 && mentions) group('errored', 'it ended before it told of any test');
  else if (seen === 0) {
    emit('start', { id: file, file });
    emit('end', { id: file, status: 'passed', ms: d.details?.duration_ms ?? 0 });
    cases.add(file, 'passed', d.details?.duration_ms ?? 0, undefined, file);
  }
}

function at() {
  emit('at', { id: idOf(file, waiting), file });
}

function take({ type, data: d }) {
  if (d?.file === undefined) return;
  if (type === 'test:stdout') process.stdout.write(d.message);
  if (type === 'test:stderr') {
    stderr = clip(stderr + d.message, 8000);
    process.stderr.write(d.message);
  }
  // The file itself is the test that holds all others.
  const whole = d.name === d.file || (d.nesting === 0 && path.resolve(TOP, d.name ?? '') === d.file);
  if (whole) {
    if (type === 'test:dequeue') {
      [stack, waiting, known, seen, failed, stderr] = [[], [], new Map(), 0, false, ''];
      file = named(d.file);
      at();
    }
    if (type === 'test:complete') ended(d, d.details?.error === undefined && d.details?.passed !== false);
    return;
  }
  if (type === 'test:enqueue') {
    seen += 1;
    known.set(key(d), (known.get(key(d)) ?? 0) + 1);
  } else if (type === 'test:dequeue') {
    waiting = [...waiting.slice(0, d.nesting), d.name];
    at();
  } else if (type === 'test:start') {
    stack = [...stack.slice(0, d.nesting), d.name];
  } else if (type === 'test:complete') {
    if (known.get(key(d)) > 0) known.set(key(d), known.get(key(d)) - 1);
    waiting = waiting.slice(0, d.nesting);
    at();
  } else if (type === 'test:pass' || type === 'test:fail') {
    done(d, type === 'test:pass');
    if (bad && stop && d.nesting === 0) {
      cases.end();
      leave(1, 'stopped at the first test that is not good');
    }
  }
}

emit('session', { tool: 'node', version: process.versions.node, ...runtime });
const { run } = require('node:test');
const options = { files: files.map((f) => path.resolve(TOP, f)), concurrency: 1, ...(names.length > 0 ? { testNamePatterns: names } : {}) };
if (files.length === 0) {
  cases.end();
  leave(0);
}
run(options)
  .on('data', take)
  .on('end', () => {
    cases.end();
    leave(bad ? 1 : 0);
  });
