
// Starts the project's own mocha, and is its reporter: mocha loads this very module once more.

function id(test) {
  const file = test.file ?? test.parent?.file;
  return idOf(file === undefined ? 'mocha' : named(file), test.titlePath());
}

const fileOf = (test) => (test.file === undefined ? undefined : named(test.file));

class Reporter {
  constructor(runner) {
    // The other one of this module wants to know.
    const shared = globalThis[Symbol.for('hotcell')];
    shared.begun = true;
    const { output } = shared;
    const cases = new Cases(output);
    const hooks = [];
    const errors = new Map();
    runner.once('start', () => emit('collected', { count: runner.total }));
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
    const asked = (test) => runner._grep === undefined || runner._grep.test(test.fullTitle());
    runner.on('test', start);
    runner.on('pass', (test) => end(test, 'passed'));
    runner.on('pending', (test) => {
      if (!asked(test)) return;
      start(test);
      end(test, 'skipped');
    });
    runner.on('fail', (test, error) => {
      if (test.type === 'hook') {
        emit('group', { id: id(test), status: 'errored', ms: 0, file: fileOf(test), ...crash(told(error)) });
        hooks.push([test, error]);
      } else {
        errors.set(id(test), error);
        end(test, 'failed', crash(told(error)));
      }
    });
    runner.once('end', () => {
      // By what the tests themselves say now, not by what was told above.
      runner.suite.eachTest((test) => {
        const status = { passed: 'passed', failed: 'failed' }[test.state] ?? (test.isPending() ? 'skipped' : undefined);
        if (status !== undefined && asked(test)) cases.add(id(test), status, test.duration ?? 0, errors.has(id(test)) ? told(errors.get(id(test))) : undefined, fileOf(test));
      });
      for (const [test, error] of hooks) cases.add(id(test), 'errored', 0, told(error), fileOf(test));
      cases.end();
    });
  }

  // mocha waits for it before it ends.
  done(failures, end) {
    end(failures);
    leave(failures > 0 ? 1 : 0);
  }
}

module.exports = Reporter;

function main() {
  const { output, filter, stop } = words();
  const shared = { output };
  globalThis[Symbol.for('hotcell')] = shared;
  const { folder } = installed('mocha');
  const own = ['--reporter', __filename, '--no-parallel', '--exit'];
  const [file, ...titles] = filter.split('::');
  if (titles.length > 0) own.push('--grep', `^${escape(titles.join(' '))}$`);
  else if (filter !== '' && !fs.existsSync(file)) own.push('--grep', filter);
  if (stop) own.push('--bail');
  if (filter !== '' && fs.existsSync(file)) own.push('--spec', file);
  // What keeps mocha from beginning, a file that cannot be loaded, is no reporter's.
  const say = console.error;
  console.error = (...all) => {
    Reflect.apply(say, console, all);
    const error = all.find((one) => one instanceof Error);
    if (error === undefined || shared.begun) return;
    const { at_file: file = 'mocha', ...rest } = crash(told(error));
    emit('group', { id: file, status: 'errored', ms: 0, file, at_file: file, ...rest });
    const cases = new Cases(output);
    cases.add(file, 'errored', 0, told(error), file);
    cases.end();
    leave(1);
  };
  process.argv.splice(1, process.argv.length, path.join(folder, 'bin/mocha.js'), ...own);
  require(path.join(folder, 'lib/cli/cli.js')).main(own);
}

if (require.main === module) main();
