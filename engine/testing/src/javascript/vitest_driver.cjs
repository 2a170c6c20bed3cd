
// Has the project's own vitest run its tests, in processes of their own, and is one of its reporters beside its JSON.

const { output, filter, stop } = words();
const { folder } = installed('vitest');
const [asked, ...titles] = filter.split('::');
const path_ = filter !== '' && fs.existsSync(asked) ? asked : undefined;
let started = 0;
let bad = false;

const pattern = titles.length > 0 ? `^${escape(titles.join(' '))}$` : filter !== '' && !path_ ? filter : undefined;

function above(test) {
  const titles = [];
  for (let one = test; one.type === 'test' || one.type === 'suite'; one = one.parent) titles.unshift(one.name);
  return titles;
}
const id = (test) => idOf(named(test.module.moduleId), above(test));
const text = (errors) => (errors ?? []).map((error) => told(error)).join('\n\n');
const STATES = { passed: 'passed', failed: 'failed', skipped: 'skipped' };

function broken(id, errors, file) {
  bad = true;
  emit('group', { id, status: 'errored', ms: 0, file, ...crash(text(errors)) });
}

const reporter = {
  onTestModuleStart: (module) => emit('at', { id: named(module.moduleId), file: named(module.moduleId) }),
  onTestCaseReady: (test) => emit('at', { id: id(test), file: named(test.module.moduleId) }),
  onTestCaseResult: (test) => {
    const { state, errors } = test.result();
    const status = STATES[state] ?? 'errored';
    // vitest tells of what nobody asked for as skipped.
    if (pattern !== undefined && !new RegExp(pattern).test(above(test).join(' '))) return;
    bad ||= status === 'failed' || status === 'errored';
    const file = named(test.module.moduleId);
    started += 1;
    emit('start', { id: id(test), file, line: test.location?.line });
    emit('end', { id: id(test), status, ms: test.diagnostic()?.duration ?? 0, ...(status === 'failed' ? crash(text(errors)) : {}) });
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
  },
};

(async () => {
  const { startVitest } = await import(require('node:url').pathToFileURL(path.join(folder, 'dist/node.js')));
  const vitest = await startVitest(
    'test',
    path_ ? [path_] : [],
    {
      watch: false,
      passWithNoTests: true,
      includeTaskLocation: true,
      reporters: ['default', reporter, 'json'],
      outputFile: { json: output },
      coverage: { enabled: false },
      maxWorkers: 1,
      minWorkers: 1,
      ...(pattern ? { testNamePattern: pattern } : {}),
      ...(stop ? { bail: 1 } : {}),
    },
    {},
  );
  if (started > 0) emit('collected', { count: started });
  await vitest?.close();
  leave(bad || process.exitCode ? 1 : 0);
})().catch((error) => {
  process.stderr.write(`${told(error)}\n`);
  process.reallyExit(3);
});
