
// Has the project's own vitest run its tests, in processes of their own, and is one of its reporters beside its JSON.

const { output, filter, stop, plan } = words();
const { folder } = installed('vitest');
const script = new Script(plan);
const [asked, ...titles] = filter.split('::');
const path_ = filter !== '' && fs.existsSync(asked) ? asked : undefined;
let [started, excluded] = [0, 0];
let bad = false;

const pattern = titles.length > 0 ? `^${titlesOf(titles)}$` : filter !== '' && !path_ ? filter : undefined;

function above(test) {
  const titles = [];
  for (let one = test; one.type === 'test' || one.type === 'suite'; one = one.parent) titles.unshift(one.name);
  return titles;
}
// What `--typecheck` finds lies below a suite that is called as its file.
function id(test) {
  const [file, titles] = [named(test.module.moduleId), above(test)];
  return idOf(file, titles.length > 1 && titles[0] === file ? titles.slice(1) : titles);
}
const STATES = { passed: 'passed', failed: 'failed', skipped: 'skipped' };

function broken(id, errors, file) {
  bad = true;
  emit('group', { id, status: 'errored', ms: 0, file, ...crashes(errors) });
}

/** A snapshot that is not there fails, as in CI and as `jest --ci` has it: one that is written here is lost with the sandbox, and its test would pass each time. */
function keepSnapshots(vitest) {
  const all = [vitest, ...(vitest?.projects ?? [])].flatMap((one) => [one?.config?.snapshotOptions, one?.snapshot?.options]);
  for (const options of all) if (options?.updateSnapshot === 'new') options.updateSnapshot = 'none';
}

/** Settings of a run. */
let settings;

/** Note about a setting that would have a run pass although something failed beside its tests. */
const IGNORED = 'errors outside of the tests are failures here, although the settings ignore them (dangerouslyIgnoreUnhandledErrors)';
let ignored;

const reporter = {
  onInit: (vitest) => {
    settings = vitest?.config;
    keepSnapshots(vitest);
  },
  // A run without a file is told as that by its verdict, and not by an exit code that also means broken settings. A file or a suite
  // without a test stays what it is for the project: an error, unless its settings allow it.
  onTestRunStart: (specifications) => {
    if (specifications?.length === 0 && settings) settings.passWithNoTests = true;
  },
  onTestModuleStart: (module) => emit('at', { id: named(module.moduleId), file: named(module.moduleId) }),
  onTestCaseReady: (test) => emit('at', { id: id(test), file: named(test.module.moduleId) }),
  onTestCaseResult: (test) => {
    const { state, errors } = test.result();
    const status = STATES[state] ?? 'errored';
    // vitest tells of what nobody asked for as skipped.
    if (pattern !== undefined && !new RegExp(pattern).test(above(test).join(' '))) {
      excluded += 1;
      return;
    }
    bad ||= status === 'failed' || status === 'errored';
    const file = named(test.module.moduleId);
    started += 1;
    if (test.diagnostic()?.flaky) passedLate.push(id(test));
    emit('start', { id: id(test), file, line: test.location?.line });
    const left = status === 'skipped' && test.options?.mode !== 'todo' && choosesSome(test.module.moduleId) ? { message: FOCUSED } : {};
    emit('end', { id: id(test), status, ms: test.diagnostic()?.duration ?? 0, ...(status === 'failed' ? crashes(errors ?? []) : left) });
  },
  onTestModuleEnd: () => emit('at', {}),
  onTestRunEnd: (modules, unhandled) => {
    for (const module of modules) {
      const file = named(module.moduleId);
      const errors = [...module.errors()];
      for (const suite of module.children.allSuites()) errors.push(...suite.errors());
      if (errors.length > 0) broken(file, errors, file);
    }
    if (unhandled.length > 0) broken('vitest', unhandled);
    if (unhandled.length > 0 && settings?.dangerouslyIgnoreUnhandledErrors) ignored = IGNORED;
  },
};

/** The script's words as vitest reads them: what names files, and options. */
function asked_(parse, words) {
  if (parse) {
    const { filter, options } = parse(['vitest', ...words], { allowUnknownOptions: true });
    return { files: filter, options };
  }
  // Before there was such a function.
  const [files, options] = [[], {}];
  const camel = (name) => name.replace(/-(.)/g, (_, c) => c.toUpperCase());
  const left = words.filter((word, at) => at > 0 || !['run', 'watch', 'dev'].includes(word));
  while (left.length > 0) {
    const word = left.shift();
    const [, no, name, value] = /^--(no-)?([^=]+)(?:=(.*))?$/s.exec(word) ?? [];
    if (name === undefined) files.push(word);
    else if (no) options[camel(name)] = false;
    else options[camel(name)] = value ?? (['config', 'dir', 'root', 'environment', 'project', 'mode'].includes(name) ? left.shift() : true);
  }
  return { files, options };
}

// vitest has no other word on its thresholds than what it prints.
const thresholds = [];
const print = process.stderr.write;
process.stderr.write = function (data, ...rest) {
  const lines = typeof data === 'string' && thresholds.length < 20 ? plain(data).split('\n') : [];
  thresholds.push(...lines.filter((line) => /^ERROR: Coverage for .* does not meet /.test(line)));
  return Reflect.apply(print, this, [data, ...rest]);
};

(async () => {
  likeNpm();
  if (!script.before()) {
    fs.mkdirSync(path.dirname(output), { recursive: true });
    fs.writeFileSync(output, '{"testResults":[]}');
    leave(1);
  }
  const { startVitest, parseCLI } = await import(require('node:url').pathToFileURL(path.join(folder, 'dist/node.js')));
  const { files, options } = asked_(parseCLI, expanded(script.words));
  // What is in the project's settings of it stays too.
  const coverage = filter !== '' ? { coverage: { enabled: false } } : {};
  const vitest = await startVitest(
    'test',
    path_ ? [path_] : files,
    {
      ...options,
      run: true,
      watch: false,
      // What a filter leaves of a file may be nothing.
      ...(filter !== '' ? { passWithNoTests: true } : {}),
      includeTaskLocation: true,
      reporters: ['default', reporter, 'json'],
      outputFile: { json: output },
      ...coverage,
      maxWorkers: 1,
      minWorkers: 1,
      ...(pattern ? { testNamePattern: pattern } : {}),
      ...(stop ? { bail: 1 } : {}),
    },
    {},
  );
  if (started > 0 || excluded > 0) emit('collected', { count: started, left_out: excluded || undefined });
  await vitest?.close();
  if (process.exitCode && thresholds.length > 0) {
    bad = true;
    emit('group', { id: 'coverage threshold', status: 'errored', ms: 0, message: clip(thresholds.join('\n'), 1000) });
  }
  const well = filter !== '' || script.after(!bad && !process.exitCode);
  leave(bad || process.exitCode || !well ? 1 : 0, ignored);
})().catch((error) => {
  process.stderr.write(`${told(error)}\n`);
  process.reallyExit(3);
});
