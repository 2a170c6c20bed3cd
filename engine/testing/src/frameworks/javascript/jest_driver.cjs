// Starts the project's own jest, and is one of its reporters: jest loads this very module once more.

const WORDS = { passed: 'passed', failed: 'failed', pending: 'skipped', skipped: 'skipped', todo: 'skipped', disabled: 'skipped' };

const state = { complete: false, excluded: 0, files: 0, thresholds: [] };

/** Time for which what tests leave open may go on once jest has written its report, in milliseconds. */
const OPEN_MS = 1000;

/**
 * Ends jest some time after its report is there: a server that tests leave open would keep it running until the time limit.
 * An error that is thrown until then, as by a timer, ends it with a code of its own, as without hotcell.
 */
function endSoon(report, exit = process.exit) {
  let since;
  const timer = setInterval(() => {
    since ??= fs.existsSync(report) ? Date.now() : undefined;
    if (since !== undefined && Date.now() - since >= OPEN_MS) Reflect.apply(exit, process, []);
  }, 100);
  timer.unref();
}

/** A title as jest's own report has it: one may be anything, and older ones of jest keep it. */
function title(one) {
  if (typeof one === 'string') return one;
  const kept = JSON.parse(JSON.stringify(one) ?? 'null');
  return kept === null ? '' : Array.isArray(kept) ? kept.map(title).join(',') : String(kept);
}

class Reporter {
  constructor(globalConfig) {
    const pattern = globalConfig.testNamePattern;
    this.pattern = pattern ? new RegExp(pattern, 'i') : null;
    this.bail = globalConfig.bail;
    this.outputFile = globalConfig.outputFile;
    this.open = new Map(); // ids that run, and how often
    this.ended = new Map(); // of the file that runs: what each id has come to, each time that it ended
    this.started = 0;
    this.repeating = new Map(); // by file
  }

  id(file, test) {
    return clip([file, ...(test.ancestorTitles ?? []), test.title].map(title).join('::'), 7000);
  }

  start(id, file, line) {
    this.started += 1;
    this.open.set(id, (this.open.get(id) ?? 0) + 1);
    emit('start', { id, file: clip(file, 4000), line });
  }

  end(id, test, file) {
    const left = this.open.get(id) ?? 0;
    if (left > 1) this.open.set(id, left - 1);
    else this.open.delete(id);
    const status = WORDS[test.status] ?? 'errored';
    this.ended.set(id, [...(this.ended.get(id) ?? []), status]);
    const beside = test.status === 'pending' && choosesSome(file) ? { message: FOCUSED } : {};
    const wrong = status === 'passed' || status === 'skipped' ? beside : crash((test.failureMessages ?? []).join('\n'));
    if (status === 'passed' && test.invocations > 1) passedLate.push(id);
    emit('end', { id, status, ms: test.duration ?? 0, ...wrong });
  }

  /** Whether a file may repeat its tests: what it comes to is known when all of it has ended. */
  repeats(test) {
    if (this.repeating.has(test.path)) return this.repeating.get(test.path);
    const { setupFiles = [], setupFilesAfterEnv = [] } = test.context?.config ?? {};
    const may = [test.path, ...setupFiles, ...setupFilesAfterEnv].some((file) => {
      try {
        return fs.readFileSync(file, 'utf8').includes('retryTimes');
      } catch {
        return false;
      }
    });
    this.repeating.set(test.path, may);
    return may;
  }

  onTestCaseStart(test, info) {
    const file = named(test.path);
    const id = this.id(file, info);
    // A repetition is not another test.
    if (!(this.open.has(id) && this.repeats(test))) this.start(id, file);
  }

  onTestCaseResult(test, result) {
    const id = this.id(named(test.path), result);
    if (this.open.has(id) && !this.repeats(test)) this.end(id, result, test.path);
  }

  /** As jest before 26 calls it; newer ones call the other one only. */
  onTestResult(test, result) {
    this.onTestFileResult(test, result);
  }

  onTestFileResult(test, result) {
    const file = named(test.path);
    state.files += 1;
    let failed = false;
    for (const one of result.testResults ?? []) {
      const id = this.id(file, one);
      failed ||= one.status === 'failed';
      const told = this.ended.get(id) ?? [];
      if (told.length > 0) {
        // An error after its end, as of a timer, makes a test fail that was told as passed.
        if (told.shift() === 'passed' && one.status === 'failed') {
          const wrong = crash((one.failureMessages ?? []).join('\n'));
          emit('group', { id, status: 'failed', ms: 0, file: clip(file, 4000), ...wrong });
        }
        continue;
      }
      // What nobody asked for is in jest's own report as left out.
      const wanted = this.pattern === null || this.pattern.test(one.fullName ?? '');
      if (!this.open.has(id)) {
        if (!wanted && one.status === 'pending') {
          state.excluded += 1;
          continue;
        }
        this.start(id, file, one.location?.line);
      }
      this.end(id, one, test.path);
      this.ended.get(id)?.pop();
    }
    for (const [id, left] of this.ended) if (left.length === 0) this.ended.delete(id);
    // The file itself is broken, or something that belongs to none of its tests.
    if ((result.testExecError || result.failureMessage) && !failed) {
      const text = result.failureMessage || result.testExecError.message || result.testExecError;
      const { message, ...at } = crash(text);
      const clean = message.replace(/^\s*● .*\n+/, '').trim();
      emit('group', { id: clip(file, 7000), status: 'errored', ms: 0, message: clean, file: clip(file, 4000), ...at });
    }
  }

  onRunComplete(contexts, results) {
    state.complete = true;
    if (this.started > 0 || state.excluded > 0) emit('collected', { count: this.started, left_out: state.excluded || undefined });
    if (this.bail && results.numFailedTests >= this.bail) {
      // jest ends then and writes no report; and it begins with more files until it has ended.
      if (state.files < results.numTotalTestSuites) state.stopped = 'stopped after the first file with a failure';
      try {
        const jest = ['@jest/core', '@jest/test-result'].reduce(
          (from, name) => require('node:module').createRequire(from).resolve(name),
          state.jest,
        );
        const { formatTestResults } = require(jest);
        fs.writeFileSync(this.outputFile, JSON.stringify(formatTestResults(results)));
      } catch {
        // No report, and that is said outside.
      }
      process.exit(1);
    }
    endSoon(this.outputFile);
  }
}

function main() {
  const [output, plan] = process.argv.splice(2, 2);
  const resolve = require('node:module').createRequire(path.join(TOP, 'package.json')).resolve;
  let manifest;
  for (const name of ['jest', 'jest-cli']) {
    try {
      manifest ??= resolve(`${name}/package.json`);
    } catch {
      // The other one, perhaps.
    }
  }
  if (manifest === undefined) {
    emit('missing', { what: 'jest', ...runtime });
    process.stderr.write('jest is not installed in the project\n');
    process.exit(MISSING);
  }
  const { version, bin } = JSON.parse(fs.readFileSync(manifest, 'utf8'));
  emit('session', { tool: 'jest', version, ...runtime });
  fs.mkdirSync(path.dirname(output), { recursive: true });
  likeNpm();
  const script = new Script(JSON.parse(plan));
  if (!script.before()) {
    fs.writeFileSync(output, '{"testResults":[]}');
    emit('finish', { exit: 1 });
    process.reallyExit(1);
  }
  // jest has no other word on its thresholds than what it prints.
  const print = process.stderr.write;
  process.stderr.write = function (data, ...rest) {
    const lines = typeof data === 'string' && state.thresholds.length < 20 ? plain(data).split('\n') : [];
    state.thresholds.push(...lines.filter((line) => /^Jest: .*(threshold|coverage)/i.test(line)));
    return Reflect.apply(print, this, [data, ...rest]);
  };
  // The last word on the exit code comes after everybody's else.
  const tell = process.emit;
  process.emit = function (name, ...rest) {
    const told = Reflect.apply(tell, this, [name, ...rest]);
    if (name === 'exit' && state.complete) {
      const code = Number(process.exitCode ?? rest[0] ?? 0);
      if (code !== 0 && state.thresholds.length > 0) {
        emit('group', { id: 'coverage threshold', status: 'errored', ms: 0, message: clip(state.thresholds.join('\n'), 1000) });
      }
      if (!script.after(code === 0) && code === 0) process.exitCode = 1;
      emit('finish', { exit: Number(process.exitCode ?? code), stopped: notes(state.stopped) });
    }
    return told;
  };
  const program = path.join(path.dirname(manifest), typeof bin === 'string' ? bin : Object.values(bin)[0]);
  state.jest = program;
  process.argv.splice(2, 0, `--outputFile=${output}`, '--reporters=default', `--reporters=${__filename}`);
  process.argv.push(...expanded(script.words));
  process.argv[1] = program;
  require(program);
}

if (require.main === module) {
  module.exports = Reporter;
  main();
}
