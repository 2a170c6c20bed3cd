
// Has the project's own jasmine run its specs, and is one of its reporters.

const { output, filter, stop, plan } = words();
const cases = new Cases(output);
const script = new Script(plan, (...all) => cases.add(...all));
const { folder, main } = installed('jasmine');
const suites = [];
const WORDS = { passed: 'passed', failed: 'failed', pending: 'skipped' };
let bad = false;
let [ended, excluded] = [0, 0];
let byName = false; // specs are chosen by their names

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
    if (filter === '' && !byName) emit('collected', { count: totalSpecsDefined });
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
    ended += 1;
    const status = spec.status === 'excluded' ? 'skipped' : WORDS[spec.status] ?? 'errored';
    bad ||= status === 'failed' || status === 'errored';
    const why = spec.status === 'excluded' ? FOCUSED : status === 'skipped' ? spec.pendingReason : text(spec.failedExpectations ?? []);
    emit('end', { id, status, ms: spec.duration ?? 0, ...(status === 'failed' ? crash(why) : { message: why || undefined }) });
    cases.add(id, status, spec.duration ?? 0, why, fileOf(spec));
  },
  jasmineDone: ({ failedExpectations, incompleteReason }) => {
    const failures = failedExpectations ?? [];
    for (const one of failures) {
      const place = placeIn(text([one]));
      group(place.at_file ?? 'jasmine', place.at_file, [one]);
    }
    if (excluded > 0) emit('collected', { count: ended, left_out: excluded });
    // By hand jasmine ends with another code than 0 then, unless it was to run some only.
    const focused = incompleteReason && ended > 0 && filter === '' ? incompleteReason : undefined;
    if (focused) group('jasmine', undefined, [{ message: `incomplete: ${focused}, and jasmine does not pass then` }]);
    const well = filter !== '' || script.after(!bad);
    cases.end();
    leave(bad || !well ? 1 : 0, focused);
  },
};

(async () => {
  likeNpm();
  if (!script.before()) {
    cases.end();
    leave(1);
  }
  const given = expanded(script.words);
  const value = (name) => given.find((word) => word.startsWith(`--${name}=`))?.slice(name.length + 3);
  const all = (name) => given.filter((word) => word.startsWith(`--${name}=`)).map((word) => word.slice(name.length + 3));
  const variables = given.filter((word) => /^[A-Za-z_][A-Za-z0-9_]*=/.test(word));
  for (const word of variables) process.env[word.slice(0, word.indexOf('='))] = word.slice(word.indexOf('=') + 1);
  const entry = await import(require('node:url').pathToFileURL(path.join(folder, main ?? 'lib/jasmine.js')));
  const Jasmine = entry.default?.default ?? entry.default;
  const runner = new Jasmine({ projectBaseDir: TOP });
  // Always the same order, where the project does not want another.
  runner.env.configure({ random: false });
  const settings = ['spec/support/jasmine.json', 'spec/support/jasmine.js', 'spec/support/jasmine.mjs', 'jasmine.json', 'jasmine.mjs', 'jasmine.js'];
  const found = value('config') ?? process.env.JASMINE_CONFIG_PATH ?? settings.find((file) => fs.existsSync(file));
  if (found) await runner.loadConfigFile(found);
  else runner.loadConfig({ spec_dir: fs.existsSync('spec') ? 'spec' : '.', spec_files: ['**/*[sS]pec.?(m|c)js', '!**/node_modules/**'] });
  for (const file of all('helper')) runner.addMatchingHelperFiles?.([file]);
  runner.addRequires?.(all('require'));
  if (value('random')) runner.env.configure({ random: value('random') === 'true' });
  if (value('seed')) runner.env.configure({ seed: value('seed') });
  if (given.includes('--fail-fast')) runner.env.configure({ stopOnSpecFailure: true });
  const named_ = given.filter((word) => !word.startsWith('-') && !variables.includes(word));
  runner.exitOnCompletion = false;
  runner.clearReporters();
  runner.addReporter(reporter);
  if (stop) runner.env.configure({ stopOnSpecFailure: true });
  const [file, ...titles] = filter.split('::');
  const files = fs.existsSync(file) && file !== '' ? [path.resolve(file)] : filter === '' && named_.length > 0 ? named_ : undefined;
  const names = titles.length > 0 ? new RegExp(`^${titlesOf(titles)}$`) : filter === '' && value('filter') ? new RegExp(value('filter')) : files || filter === '' ? undefined : new RegExp(filter);
  if (names) {
    byName = true;
    // jasmine tells also of what it leaves out.
    const { specStarted, specDone } = reporter;
    const asked = (spec) => names.test(spec.fullName);
    reporter.specStarted = (spec) => asked(spec) && specStarted(spec);
    reporter.specDone = (spec) => {
      if (asked(spec)) specDone(spec);
      else excluded += 1;
    };
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
