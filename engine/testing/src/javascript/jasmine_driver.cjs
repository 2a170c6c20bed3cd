
// Has the project's own jasmine run its specs, and is one of its reporters.

const { output, filter, stop } = words();
const cases = new Cases(output);
const { folder, main } = installed('jasmine');
const suites = [];
const WORDS = { passed: 'passed', failed: 'failed', pending: 'skipped' };
let bad = false;

const text = (all) => all.map((one) => (one.stack && one.stack.includes(one.message) ? one.stack : `${one.message}\n${one.stack ?? ''}`)).join('\n\n');
const fileOf = (result) => (result.filename ? named(result.filename) : 'jasmine');

function group(id, file, failures) {
  if (failures.length === 0) return;
  bad = true;
  emit('group', { id, status: 'errored', ms: 0, file, ...crash(text(failures)) });
  cases.add(id, 'errored', 0, text(failures), file);
}

const reporter = {
  jasmineStarted: ({ totalSpecsDefined }) => {
    if (filter === '') emit('collected', { count: totalSpecsDefined });
  },
  suiteStarted: (suite) => void suites.push(suite.description),
  suiteDone: (suite) => {
    group(idOf(fileOf(suite), suites), fileOf(suite), suite.failedExpectations ?? []);
    suites.pop();
  },
  specStarted: (spec) => emit('start', { id: idOf(fileOf(spec), [...suites, spec.description]), file: fileOf(spec) }),
  specDone: (spec) => {
    const id = idOf(fileOf(spec), [...suites, spec.description]);
    // What nobody asked for, or what is focused elsewhere.
    const status = spec.status === 'excluded' ? 'skipped' : WORDS[spec.status] ?? 'errored';
    bad ||= status === 'failed' || status === 'errored';
    const why = status === 'skipped' ? spec.pendingReason : text(spec.failedExpectations ?? []);
    emit('end', { id, status, ms: spec.duration ?? 0, ...(status === 'failed' ? crash(why) : { message: why || undefined }) });
    cases.add(id, status, spec.duration ?? 0, why, fileOf(spec));
  },
  jasmineDone: ({ failedExpectations, incompleteReason }) => {
    const failures = failedExpectations ?? [];
    for (const one of failures) {
      const place = placeIn(text([one]));
      group(place.at_file ?? 'jasmine', place.at_file, [one]);
    }
    cases.end();
    const focused = incompleteReason && !bad ? incompleteReason : undefined;
    leave(bad ? 1 : 0, focused);
  },
};

(async () => {
  const entry = await import(require('node:url').pathToFileURL(path.join(folder, main ?? 'lib/jasmine.js')));
  const Jasmine = entry.default?.default ?? entry.default;
  const runner = new Jasmine({ projectBaseDir: TOP });
  // Always the same order, where the project does not want another.
  runner.env.configure({ random: false });
  const settings = ['spec/support/jasmine.json', 'spec/support/jasmine.js', 'spec/support/jasmine.mjs', 'jasmine.json', 'jasmine.mjs', 'jasmine.js'];
  const found = settings.find((file) => fs.existsSync(file));
  if (found) await runner.loadConfigFile(found);
  else runner.loadConfig({ spec_dir: fs.existsSync('spec') ? 'spec' : '.', spec_files: ['**/*[sS]pec.?(m|c)js', '!**/node_modules/**'] });
  runner.exitOnCompletion = false;
  runner.clearReporters();
  runner.addReporter(reporter);
  if (stop) runner.env.configure({ stopOnSpecFailure: true });
  const [file, ...titles] = filter.split('::');
  const files = fs.existsSync(file) && file !== '' ? [path.resolve(file)] : undefined;
  const names = titles.length > 0 ? new RegExp(`^${escape(titles.join(' '))}$`) : files || filter === '' ? undefined : new RegExp(filter);
  if (names) {
    // jasmine tells also of what it leaves out.
    const { specStarted, specDone } = reporter;
    const asked = (spec) => names.test(spec.fullName);
    reporter.specStarted = (spec) => asked(spec) && specStarted(spec);
    reporter.specDone = (spec) => asked(spec) && specDone(spec);
  }
  await runner.execute(files, names);
  // It has ended in its reporter, unless that was never asked.
  process.exitCode = 1;
})().catch((error) => {
  process.stderr.write(`${told(error)}\n`);
  const place = placeIn(plain(told(error)));
  group(place.at_file ?? 'jasmine', place.at_file, [{ message: String(error?.message ?? error), stack: error?.stack }]);
  cases.end();
  leave(1);
});
