
// A reporter of node's own test runner, which starts each file in a process of its own. A file that ends before its tests did is
// one that passed, as node has it: not here.

const asked = new URL(import.meta.url).searchParams;
const [output, filter] = [asked.get('report'), asked.get('filter') ?? ''];
const [stop, held] = [asked.has('stop'), asked.has('held')];
const cases = new Cases(output);
const titles = filter.includes('::') ? filter.split('::').slice(1) : [];
const bare = filter.replace(/ #[0-9]+$/, '');
const wanted = (id) => titles.length === 0 || [filter, bare].some((one) => id === one || id.startsWith(`${one}::`) || one.startsWith(`${id}::`));
const thresholds = [];
const LATE = /^(?:Error|Warning): (?:Test|A resource) [^]* generated asynchronous activity after the test ended/;
// Beside a test that is asked for, node runs all of its suite, and its exit code is about all of that.
const beside = titles.length > 0;

let bad = false;
let stack = []; // titles, as results come
let waiting = []; // titles, as tests begin
let file = '';
let known = new Map(); // found, and not done
let seen = 0;
let failed = false;
let stderr = '';
let begun = 0;
let excluded = 0; // by a pattern of names
const ran = new Set(); // files
let skipsOthers = false; // with --test-only: node before 22 tells of the tests beside those with .only, as skipped
let after = []; // errors of the file that ran, of tests that had ended

const key = (d) => `${d.line}:${d.column}:${d.nesting}:${d.name}`;
const left = (message) => message === 'test name does not match pattern';

let wrong = []; // with the file as a whole
function group(text) {
  bad = true;
  wrong.push(text);
}

/** All that is wrong with the file that ran, told once. */
function settle() {
  if (wrong.length === 0) return;
  const all = wrong.map((text) => crash(text));
  const place = all.find((one) => one.at_file !== undefined) ?? {};
  emit('group', { id: file, status: 'errored', ms: 0, file, ...place, message: clip(all.map((one) => one.message).join('\n\n'), 1000) });
  cases.add(file, 'errored', 0, wrong.join('\n\n'), file);
  wrong = [];
}

function done(d, passed) {
  const id = idOf(file, [...stack.slice(0, d.nesting), d.name]);
  const error = d.details?.error;
  if (d.details?.type === 'suite') {
    // Its tests have told what is wrong with them.
    if (!passed && error?.failureType === 'hookFailed') group(`${d.name}: ${told(error.cause ?? error)}`);
    return;
  }
  // Where the title of a suite is asked for, node runs all of it.
  failed ||= !passed;
  if (left(d.skip) || !wanted(id)) {
    excluded += 1;
    return;
  }
  const expected = d.skip !== undefined || d.todo !== undefined;
  const status = expected ? 'skipped' : passed ? 'passed' : 'failed';
  const text = status === 'failed' ? told(error?.cause ?? error) : undefined;
  const reason = [d.skip, d.todo].find((why) => typeof why === 'string' && why !== '');
  bad ||= status === 'failed';
  const ms = d.details?.duration_ms ?? 0;
  begun += 1;
  emit('start', { id, file, line: d.line });
  emit('end', { id, status, ms, ...(text ? crash(text) : { message: reason }) });
  cases.add(id, status, ms, text ?? reason, file, d.line);
}

function ended(d, passed) {
  const holds = definesTests(d.file);
  const error = d.details?.error;
  const late = error?.failureType === 'testTimeoutFailure' ? told(error.cause ?? error) : '';
  const said = late || after.join('\n\n') || stderr || 'its process ended with an exit code that is not 0';
  const open = [...known.values()].some((count) => count > 0);
  if (!passed && (!failed || after.length > 0)) group(said);
  else if (open) group('it ended before all of its tests were done');
  else if (seen === 0 && holds) group('it ended before it told of any test');
  else if (seen === 0) {
    begun += 1;
    emit('start', { id: file, file });
    emit('end', { id: file, status: 'passed', ms: d.details?.duration_ms ?? 0 });
    cases.add(file, 'passed', d.details?.duration_ms ?? 0, undefined, file);
  }
}

function of(d) {
  if (d.file === undefined || named(d.file) === file) return;
  settle();
  [stack, waiting, known, seen, failed, stderr, after] = [[], [], new Map(), 0, false, '', []];
  file = named(d.file);
}

function at() {
  emit('at', { id: idOf(file, waiting), file });
}

function take({ type, data: d }) {
  // node has no other word on its thresholds of coverage.
  if (type === 'test:diagnostic' && /coverage does not meet/.test(d?.message)) thresholds.push(d.message);
  // Told of no test and no file: a later file has not begun by then.
  if (type === 'test:diagnostic' && after.length < 20 && LATE.test(d?.message)) after.push(clip(d.message.replace(/^(?:Error|Warning): /, ''), 1000));
  summed ||= type === 'test:diagnostic' && d?.file === undefined && /^tests \d+$/.test(d.message);
  if (d?.file === undefined) return;
  ran.add(d.file);
  skipsOthers ||= d.skip === "'only' option not set";
  if (type === 'test:stdout') process.stdout.write(d.message);
  if (type === 'test:stderr') {
    stderr = clip(stderr + d.message, 8000);
    process.stderr.write(d.message);
  }
  // The file itself is the test that holds all others.
  const whole = d.name === d.file || (d.nesting === 0 && path.resolve(TOP, d.name ?? '') === d.file);
  if (whole) {
    if (type === 'test:dequeue') {
      settle();
      [stack, waiting, known, seen, failed, stderr, after] = [[], [], new Map(), 0, false, '', []];
      file = named(d.file);
      at();
    }
    if (type === 'test:complete') {
      ended(d, d.details?.error === undefined && d.details?.passed !== false);
      settle();
    }
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
    if (bad && stop && d.nesting === 0) over(1, 'stopped at the first test that is not good');
  }
}

// With --test-force-exit node ends when all is told, and before that is read here to its end.
let summed = false;
process.on('exit', (code) => {
  if (summed) over(bad || (!beside && (code || process.exitCode)) ? 1 : 0);
});

/** The end; of what runs behind the tests another process tells. */
function over(code, stopped) {
  settle();
  const isOnly = process.execArgv.includes('--test-only') && filter === '' && !skipsOthers;
  if (isOnly) for (const one of ran) if (choosesSome(one)) withOnly.add(named(one));
  cases.end();
  if (excluded > 0) emit('collected', { count: begun, left_out: excluded });
  if (held) process.reallyExit(code);
  leave(code, stopped);
}

emit('session', { tool: 'node', version: process.versions.node, ...runtime });

export default async function* (source) {
  for await (const event of source) take(event);
  if (thresholds.length > 0 && process.exitCode) {
    settle();
    file = 'coverage threshold';
    group(thresholds.join('\n'));
  }
  over(bad || (!beside && process.exitCode) ? 1 : 0);
}
