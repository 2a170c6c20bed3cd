
// Starts the project's own mocha, and is its reporter: mocha loads this very module once more.

function id(test) {
  const file = test.file ?? test.parent?.file;
  return idOf(file === undefined ? 'mocha' : named(file), test.titlePath());
}

const fileOf = (test) => (test.file === undefined ? undefined : named(test.file));

/** Functions that stand in for those of tests, and were called. */
const [STANDINS, CALLED] = [new WeakSet(), new WeakSet()];

/** Has the function of a test say that it was called, also in another test that mocha makes of it to try again. */
function listenTo(test) {
  if (typeof test.fn !== 'function' || STANDINS.has(test.fn)) return;
  const fn = new Proxy(test.fn, {
    apply(own, self, all) {
      CALLED.add(fn);
      return Reflect.apply(own, self, all);
    },
  });
  STANDINS.add(fn);
  test.fn = fn;
}

const didNotRun = (test) => STANDINS.has(test.fn) && !CALLED.has(test.fn);
const UNRUN = 'its function did not run, although mocha says that it passed: something replaced a part of mocha';

/** What an error says, without the line of this file among its calls. */
const said = (error) => told(error).split('\n').filter((line) => !line.includes(__filename)).join('\n');

class Reporter {
  constructor(runner) {
    // The other one of this module wants to know.
    const shared = globalThis[Symbol.for('hotcell')];
    this.shared = shared;
    this.unrun = new Set();
    shared.begun = true;
    const { cases } = shared;
    const hooks = [];
    const errors = new Map(); // by test
    const open = new Set();
    const start = (test) => {
      // A repetition is not another test, and one that skips itself has begun.
      if (open.has(id(test))) return;
      open.add(id(test));
      emit('start', { id: id(test), file: fileOf(test) });
    };
    const end = (test, status, more) => {
      open.delete(id(test));
      emit('end', { id: id(test), status, ms: test.duration ?? 0, ...more });
    };
    // mocha tells of what is skipped whether it was asked for or not.
    const asked = (test) => runner._grep === undefined || runner._grep.test(test.fullTitle()) !== (runner._invert ?? false);
    const count = () => {
      let all = 0;
      runner.suite.eachTest((test) => (all += asked(test) ? 1 : 0));
      return all;
    };
    // What `.only` leaves out is gone from the suite when mocha starts.
    let found = 0;
    runner.suite.eachTest(() => (found += 1));
    runner.once('start', () => {
      if (!dry) runner.suite.eachTest(listenTo);
      const left = count();
      emit('collected', { count: left, left_out: found > left ? found - left : undefined });
    });
    // With `--dry-run` mocha tells of each test as passed, and calls none.
    const dry = runner._opts?.dryRun ?? runner.dryRun ?? false;
    const DRY = 'mocha only lists it (--dry-run, or dry-run in its settings)';
    runner.on('test', start);
    runner.on('pass', (test) => {
      if (test.currentRetry?.() > 0) passedLate.push(id(test));
      if (dry) end(test, 'errored', { message: DRY });
      else if (didNotRun(test)) {
        this.unrun.add(test);
        end(test, 'failed', { message: UNRUN });
      }
      else end(test, 'passed');
    });
    runner.on('pending', (test) => {
      if (!asked(test)) return;
      start(test);
      end(test, 'skipped');
    });
    runner.on('fail', (test, error) => {
      if (test.type === 'hook') {
        emit('group', { id: id(test), status: 'errored', ms: 0, file: fileOf(test), ...crash(said(error)) });
        hooks.push([test, error]);
        return;
      }
      // The first error is the reason; a later one, or `done` once more, follows from it.
      if (errors.has(test)) return;
      errors.set(test, error);
      if (open.has(id(test))) end(test, 'failed', crash(said(error)));
      // It had ended: a late error, or `done` once more.
      else emit('group', { id: id(test), status: 'failed', ms: 0, file: fileOf(test), ...crash(said(error)) });
    });
    runner.once('end', () => {
      const known = new Set();
      const add = (test, status, why) => cases.add(id(test), status, test.duration ?? 0, errors.has(test) ? said(errors.get(test)) : why, fileOf(test));
      // By what the tests themselves say now, not by what was told above.
      runner.suite.eachTest((test) => {
        known.add(test);
        const status = errors.has(test) ? 'failed' : { passed: 'passed', failed: 'failed' }[test.state] ?? (test.isPending() ? 'skipped' : undefined);
        if (dry && status === 'passed') cases.add(id(test), 'errored', 0, DRY, fileOf(test));
        else if (this.unrun.has(test)) add(test, 'failed', UNRUN);
        else if (status !== undefined && asked(test)) add(test, status);
      });
      // An error that belongs to no test is told as one that never began.
      for (const test of errors.keys()) if (!known.has(test)) add(test, 'failed');
      for (const [test, error] of hooks) cases.add(id(test), 'errored', 0, said(error), fileOf(test));
    });
  }

  // mocha waits for it before it ends.
  done(failures, end) {
    end(failures);
    const { script, cases, filter } = this.shared;
    const bad = failures > 0 || this.unrun.size > 0;
    const well = filter !== '' || script.after(!bad);
    cases.end();
    leave(bad || !well ? 1 : 0);
  }
}

module.exports = Reporter;

/** What mocha would start another node with, by its own word: options of node, and the words without them. */
function nodeOptions(folder, args) {
  let own;
  try {
    const { loadOptions } = require(path.join(folder, 'lib/cli/options'));
    const { isNodeFlag, unparseNodeFlags } = require(path.join(folder, 'lib/cli/node-flags'));
    own = { loadOptions, isNodeFlag, unparseNodeFlags };
  } catch {
    // Before these were, mocha had no such options.
    return [];
  }
  const flags = {};
  const options = own.loadOptions(args);
  for (const [name, value] of Object.entries(options)) if (own.isNodeFlag(name)) flags[name.replace(/^v8-(?!options)/, '')] = value;
  const listed = options['node-option'];
  return listed ? listed.map((option) => `--${option}`) : own.unparseNodeFlags(flags);
}

function main() {
  const again = process.argv[6] === 'again';
  const given = process.argv.slice(2, 5);
  const { output, filter, stop, plan } = words();
  const cases = new Cases(output);
  const script = new Script(plan, (...all) => cases.add(...all));
  const shared = { cases, script, filter };
  globalThis[Symbol.for('hotcell')] = shared;
  const folder = again ? plan.folder : installed('mocha').folder;
  if (!again) likeNpm();
  if (!script.before()) {
    cases.end();
    leave(1);
  }
  const own = ['--reporter', __filename, '--no-parallel', '--exit'];
  const [file, ...titles] = filter.split('::');
  if (titles.length > 0) own.push('--grep', `^${titlesOf(titles)}$`);
  else if (filter !== '' && !fs.existsSync(file)) own.push('--grep', filter);
  if (stop) own.push('--bail');
  if (filter !== '' && fs.existsSync(file)) own.push('--spec', file);
  const args = [...own, ...expanded(script.words)];
  const flags = again ? [] : nodeOptions(folder, args);
  if (flags.length > 0) {
    instead([...flags, __filename, ...given, JSON.stringify({ ...plan, folder, done: script.seen.done }), 'again']);
    return;
  }
  // What keeps mocha from beginning, a file that cannot be loaded, is no reporter's.
  const say = console.error;
  console.error = (...all) => {
    Reflect.apply(say, console, all);
    const error = all.find((one) => one instanceof Error);
    if (error === undefined || shared.begun) return;
    const { at_file: file = 'mocha', ...where } = crash(told(error));
    emit('group', { id: file, status: 'errored', ms: 0, file, at_file: file, ...where });
    cases.add(file, 'errored', 0, told(error), file);
    cases.end();
    leave(1);
  };
  process.argv.splice(1, process.argv.length, path.join(folder, 'bin/mocha.js'), ...args);
  const { main: begin } = require(path.join(folder, 'lib/cli/cli.js'));
  // Options of node are this process's own already.
  begin(again ? ofMocha(folder, args) : args);
}

/** These words without options of node, as mocha's own command writes them for another node: mocha before 10 takes nothing but words. */
function ofMocha(folder, args) {
  const { loadOptions } = require(path.join(folder, 'lib/cli/options'));
  const { isNodeFlag } = require(path.join(folder, 'lib/cli/node-flags'));
  const { aliases } = require(path.join(folder, 'lib/cli/run-option-metadata'));
  const unparse = require('node:module').createRequire(path.join(folder, 'package.json'))('yargs-unparser');
  const options = Object.entries(loadOptions(args)).filter(([name]) => !isNodeFlag(name) && name !== 'node-option');
  return unparse(Object.fromEntries(options), { alias: aliases });
}

if (require.main === module) main();
