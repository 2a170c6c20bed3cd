
// Has the project's own karma run its tests once, and is one of its plugins: a framework that adds our page's file, and a reporter.

const { output, filter, stop, plan } = words();
const [settings, angular, measure] = process.argv.splice(2, 3);
const NO_TIMEOUT_MS = 2 ** 30; // some may be added to it; how long anything may take is the sandbox's to say
const FLAGS = ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--no-first-run'];
const HEADLESS = 'launcher:ChromeHeadless';
const DEBIANS = '/usr/lib/chromium/chromium';
const CHROMES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome', '/usr/bin/google-chrome-stable'];
const cases = new Cases(output);
const script = new Script(plan, (...all) => cases.add(...all));
const { folder } = installed('karma');
const open = new Map(); // what the page has told of and karma has not
const broken = []; // what went wrong beside the tests, of which karma hears at the end
let base = TOP;
let format = (text) => String(text);
let attached = false;
let within = false; // the page is in this process
let bad = false;
let whole = false; // karma came to its own end
let focused; // why jasmine left some out

/** A URL's path in the page, as a file of the project. */
function fileOf(place) {
  const [, kind, rest] = /\/(base|absolute)\/(.*)$/.exec(place ?? '') ?? [];
  if (rest === undefined) return 'karma';
  // What Angular has compiled says by its maps what it was.
  if (angular && kind === 'base') return fs.existsSync(decodeURIComponent(rest)) ? decodeURIComponent(rest) : 'karma';
  return named(kind === 'base' ? path.resolve(base, decodeURIComponent(rest)) : `/${decodeURIComponent(rest)}`);
}
const key = (titles) => titles.join('\u0000');
const inPage = (text) => plain(format(String(text ?? ''))).replace(/\r/g, '').trim();
const AFTER_ALL = /^An error was thrown in afterAll\n/; // what karma-jasmine says of all that belongs to no test
const HOOK = /^"(before|after) (all|each)" hook/;

function group(id, file, text) {
  bad = true;
  emit('group', { id, status: 'errored', ms: 0, file, ...crash(text) });
  cases.add(id, 'errored', 0, text, file);
}

/** What our file in the page says. */
function said(what) {
  if (what === null || typeof what !== 'object') return;
  if (what.e === 'begin') {
    attached = true;
    // Of those that were asked for: a page that ends early cannot leave out others.
    emit('collected', { count: Number(what.count) });
    return;
  }
  if (what.e === 'focus') focused = clip(plain(what.text), 1000);
  if (!Array.isArray(what.titles)) return;
  if (what.e === 'broken') {
    broken.push(String(what.text));
    const text = inPage(what.text).replace(AFTER_ALL, '');
    const { at_file: file = 'karma' } = placeIn(text);
    group(idOf(file, what.titles.map(String)), file === 'karma' ? undefined : file, text);
    return;
  }
  const titles = what.titles.map(String);
  const file = fileOf(what.file);
  const id = idOf(file, titles);
  if (what.e === 'start') {
    open.set(key(titles), [...(open.get(key(titles)) ?? []), file]);
    emit('start', { id, file });
  } else if (what.e === 'end') {
    const text = inPage(what.text);
    emit('end', { id, status: what.status, ms: Number(what.ms) || 0, ...(what.status === 'failed' ? crash(text) : { message: text || undefined }) });
  } else if (what.e === 'hook') {
    bad = true;
    emit('group', { id, status: 'errored', ms: 0, file, ...crash(inPage(what.text)) });
    open.set(key(titles), [...(open.get(key(titles)) ?? []), file]);
  }
}

const reporter = {
  onRunComplete: () => void (whole = true),
  onBrowserInfo: (_, { hotcell }) => said(hotcell),
  // jsdom has printed it already.
  onBrowserLog: (_, log, type) => void (within || process.stdout.write(`${type}: ${log}\n`)),
  onBrowserProcessFailure: (launched) => group('karma', undefined, `the browser ${launched?.name ?? ''} did not come up or ended before its tests: ${launched?.error ?? 'karma says no more'}`),
  onBrowserError: (_, error) => {
    if (broken.length > 0 && error === broken.join('\n\n')) return;
    const text = inPage(typeof error === 'string' ? error : error?.str ?? error?.message ?? JSON.stringify(error)).replace(AFTER_ALL, '');
    const { at_file: file = 'karma' } = placeIn(text);
    group(file, file === 'karma' ? undefined : file, text);
  },
  onSpecComplete: (_, result) => {
    const titles = [...result.suite, result.description].map(String);
    const files = open.get(key(titles)) ?? [];
    const [file] = files.splice(0, 1);
    // With a filter karma tells also of what was left out, and our page does not.
    if (file === undefined && filter !== '' && result.skipped) return;
    const place = file ?? 'karma';
    const id = idOf(place, titles);
    const status = HOOK.test(result.description) ? 'errored' : result.skipped ? 'skipped' : result.success ? 'passed' : 'failed';
    const text = inPage((result.log ?? []).join('\n\n'));
    bad ||= status === 'failed' || status === 'errored';
    // Of other frameworks nobody told how it began.
    if (!attached) {
      emit('start', { id });
      emit('end', { id, status, ms: result.time ?? 0, ...(status === 'failed' ? crash(text) : {}) });
    }
    cases.add(id, status, result.time ?? 0, status === 'passed' || status === 'skipped' ? undefined : text, file);
  },
};

function makeReporter(formatError) {
  format = formatError;
  return reporter;
}
makeReporter.$inject = ['formatError'];

function makeFramework(files) {
  files.unshift({ pattern: path.join(path.dirname(__filename), 'hotcell_karma_page.js'), included: true, served: true, watched: false });
}
makeFramework.$inject = ['config.files'];

const own = require('node:module').createRequire(path.join(TOP, 'package.json'));
const has = (name) => {
  try {
    return own.resolve(name) !== '';
  } catch {
    return false;
  }
};

/** The browser to use. A Chrome is started without a window, and without its own sandbox: it is in one. */
function browser(config) {
  const chrome = (name) => /^(Chrome|Chromium)/.test(config.customLaunchers?.[name]?.base ?? name);
  const wanted = config.browsers ?? [];
  const jsdom = wanted.find((name) => /^jsdom$/i.test(config.customLaunchers?.[name]?.base ?? name));
  if (jsdom) return jsdom;
  const other = wanted.find((name) => !chrome(name));
  if (other) return other;
  // One that the settings name may be of a machine outside.
  if (!fs.existsSync(process.env.CHROME_BIN ?? '')) process.env.CHROME_BIN = CHROMES.find((file) => fs.existsSync(file)) ?? '';
  // Debian's script reads settings that no sandbox shows.
  if (process.env.CHROME_BIN === '/usr/bin/chromium' && fs.existsSync(DEBIANS) && !fs.existsSync('/etc/chromium.d')) process.env.CHROME_BIN = DEBIANS;
  if (process.env.CHROME_BIN !== '' && fs.existsSync(process.env.CHROME_BIN) && has('karma-chrome-launcher')) {
    const flags = config.customLaunchers?.[wanted[0]]?.flags ?? [];
    // As karma does with customLaunchers, which it has read by now.
    const make = (injector) => injector.createChild([{ args: ['value', { flags: [...flags, ...FLAGS] }] }], [HEADLESS]).get(HEADLESS);
    make.$inject = ['injector'];
    config.plugins.push(own('karma-chrome-launcher'), { 'launcher:HotcellChrome': ['factory', make] });
    return 'HotcellChrome';
  }
  if (has('karma-jsdom-launcher')) {
    if (wanted.length > 0) process.stderr.write(`hotcell: there is no ${wanted.join(', ')} here: the tests run in jsdom\n`);
    config.plugins.push(own('karma-jsdom-launcher'));
    return 'jsdom';
  }
  emit('missing', { what: 'a browser for karma', ...runtime });
  process.stderr.write('there is no browser for karma: neither Chromium with karma-chrome-launcher nor karma-jsdom-launcher\n');
  return process.exit(MISSING);
}

/** What hotcell has its own way of, in place of what the project's settings say. */
function adjust(config) {
  base = config.basePath || TOP;
  const [file, ...titles] = filter.split('::');
  const isFile = filter !== '' && fs.existsSync(file);
  const first = titles.length > 0 && !isFile && file !== 'karma' ? [file] : [];
  const below = path.relative(base, path.resolve(file));
  const asked = {
    // As the page has it.
    // Angular is asked to compile no other.
    file: isFile && !angular ? (below.startsWith('..') ? `/absolute${path.resolve(file)}` : `/base/${below}`) : undefined,
    titles: titles.length > 0 ? [...first, ...titles].join('::') : undefined,
    pattern: titles.length === 0 && filter !== '' && !isFile ? filter : undefined,
  };
  config.plugins = [...(config.plugins ?? []), { 'framework:hotcell': ['factory', makeFramework], 'reporter:hotcell': ['factory', makeReporter] }];
  config.browsers = [browser(config)];
  // Files are told apart by their URLs.
  config.urlRoot = '/';
  config.client = { ...config.client, hotcell: asked };
  config.client.jasmine = { random: false, ...config.client.jasmine, ...(stop ? { stopOnSpecFailure: true, oneFailurePerSpec: true } : {}) };
  if (stop) config.client.mocha = { ...config.client.mocha, bail: true };
  // The adapters of the project's frameworks are put before our file, which is put before the project's.
  config.frameworks = ['hotcell', ...(config.frameworks ?? [])];
  config.reporters = ['hotcell'];
  if (measure) {
    if (!has('karma-coverage')) {
      emit('missing', { what: 'karma-coverage', ...runtime });
      process.stderr.write('karma-coverage is not installed in the project\n');
      process.exit(MISSING);
    }
    if (!angular && !Object.values(config.preprocessors ?? {}).flat().includes('coverage')) {
      process.stderr.write('hotcell: no file is to be counted: `preprocessors` of the settings has no `coverage` (karma-coverage)\n');
    }
    config.reporters.push('coverage');
    // How files are instrumented stays the project's.
    config.coverageReporter = { ...config.coverageReporter, check: undefined, dir: measure, subdir: '.', reporters: [{ type: 'lcovonly', file: 'lcov.info' }] };
  }
  // A test that never returns keeps jsdom's process: what it says then is said at once.
  const options = config.jsdomLauncher?.jsdom ?? {};
  const before = options.beforeParse;
  config.jsdomLauncher = {
    ...config.jsdomLauncher,
    jsdom: {
      ...options,
      beforeParse(window) {
        within = true;
        Object.defineProperty(window, 'hotcellSays', { value: (text) => said(JSON.parse(text)) });
        before?.(window);
      },
    },
  };
  Object.assign(config, {
    singleRun: true,
    autoWatch: false,
    detached: false,
    restartOnFileChange: false,
    colors: false,
    hostname: '127.0.0.1',
    listenAddress: '127.0.0.1',
    port: 9876,
    captureTimeout: Math.max(config.captureTimeout ?? 0, 120000),
    browserNoActivityTimeout: NO_TIMEOUT_MS,
    browserDisconnectTimeout: 2000,
    browserDisconnectTolerance: 0,
    pingTimeout: NO_TIMEOUT_MS,
    retryLimit: 0,
    failOnEmptyTestSuite: false,
    failOnSkippedTests: false,
    failOnFailingTestSuite: true,
  });
  return config;
}

function over(code) {
  const good = code === 0 && whole && !bad;
  const well = filter !== '' || script.after(good);
  cases.end();
  leave(good && well ? 0 : 1, bad ? undefined : focused);
}

/** A function of settings. */
async function settingsOf(file) {
  const set = (await import(require('node:url').pathToFileURL(file))).default;
  const call = set?.default ?? set;
  if (typeof call !== 'function') throw new Error(`${named(file)} exports no function`);
  return call;
}

/** What went wrong in a build, by what its builder printed: esbuild's form, and webpack's. */
function complaints(text) {
  for (const pattern of [
    /\[ERROR\] (?<what>[^\n]*?)(?: \[plugin [^\]\n]*\])?\n\s*\n\s+(?<file>[^\s:]+):(?<line>\d+):\d+:/g,
    /(?:^|\n)(?:Error: )?(?<file>[^\s:]+):(?<line>\d+):\d+ - error (?<what>[^\n]*)/g,
  ]) {
    for (const { groups: { what, file, line } } of text.matchAll(pattern)) {
      if (inside(file) !== null && !broken.includes(file)) {
        broken.push(file);
        group(named(file), named(file), `${what}\n    at ${named(file)}:${line}`);
      }
    }
  }
  if (broken.length === 0) group('angular.json', 'angular.json', text.trim().split('\n').slice(-20).join('\n') || 'ng test ended before any test');
}

/** Angular's own builder compiles its projects, and starts karma with these settings. */
async function byAngular(karma) {
  let words = JSON.parse(angular);
  const [file] = filter.split('::');
  if (filter !== '' && fs.existsSync(file)) {
    words = words.filter((word, at) => !word.startsWith('--include') && words[at - 1] !== '--include');
    words.push(`--include=${file}`);
  }
  const workspace = JSON.parse(fs.readFileSync('angular.json', 'utf8').replace(/^\s*\/\/.*$/gm, ''));
  const tested = Object.entries(workspace.projects ?? {}).filter(([, one]) => (one.architect ?? one.targets)?.test).map(([of]) => of);
  const chosen = words.find((word) => !word.startsWith('-') && word in (workspace.projects ?? {}));
  // Angular would test one after the other, and this follows one.
  if (chosen === undefined && tested.length > 1) throw new Error(`angular.json has tests of several projects: name one in the script, as \`ng test ${tested[0]}\` (${tested.join(', ')})`);
  const name = chosen ?? tested[0];
  const project = workspace.projects?.[name] ?? {};
  const configured = (project.architect ?? project.targets)?.test?.options?.karmaConfig ?? 'karma.conf.js';
  const theirs = fs.existsSync(configured) ? await settingsOf(path.resolve(configured)) : undefined;
  module.exports = async (config) => {
    if (theirs) await theirs(config);
    else {
      const webpack = '@angular-devkit/build-angular';
      const plugins = ['karma-jasmine', 'karma-coverage', `${webpack}/plugins/karma`].filter(has).map((one) => own(one));
      config.set({ plugins, frameworks: ['jasmine', ...(has(`${webpack}/plugins/karma`) ? [webpack] : [])], browsers: ['Chrome'] });
    }
    config.set({ basePath: theirs ? path.resolve(path.dirname(configured), config.basePath ?? '') : TOP });
    adjust(config);
  };
  const { Server } = karma;
  karma.Server = class extends Server {
    constructor(config) {
      super(config, (code) => {
        started = true;
        // Webpack's builder starts karma all the same.
        if (!whole) complaints(printed);
        process.emit('exit', code);
        over(code);
      });
    }
  };
  let started = false;
  let printed = '';
  for (const stream of [process.stdout, process.stderr]) {
    const write = stream.write.bind(stream);
    stream.write = (text, ...rest) => {
      printed = (printed + plain(text)).slice(-1_000_000);
      return write(text, ...rest);
    };
  }
  process.once('exit', () => {
    if (started) return;
    complaints(printed);
    cases.end();
    leave(1);
  });
  const program = own.resolve('@angular/cli/bin/ng.js');
  process.env.NG_CLI_ANALYTICS = 'false';
  process.argv = [process.argv[0], program, 'test', ...words, '--watch=false', '--progress=false', `--karma-config=${__filename}`, '--browsers=HotcellChrome', '--reporters=hotcell', ...(measure ? ['--code-coverage'] : [])];
  own(program);
}

(async () => {
  likeNpm();
  if (!script.before()) {
    cases.end();
    leave(1);
  }
  const karma = own(folder);
  if (angular) return void (await byAngular(karma));
  const found = settings ? [settings] : ['karma.conf.js', 'karma.conf.cjs', 'karma.conf.mjs', 'karma.conf.ts', '.config/karma.conf.js'];
  const file = found.map((one) => path.resolve(one)).find((one) => fs.existsSync(one));
  if (file === undefined) throw new Error(`there are no settings of karma: ${found[0]} is not there`);
  let read = file;
  if (!file.endsWith('.ts')) {
    // karma reads no modules: it is given this one in the place of the project's settings.
    const call = await settingsOf(file);
    module.exports = async (config) => {
      await call(config);
      config.set({ basePath: path.resolve(path.dirname(file), config.basePath ?? '') });
    };
    read = __filename;
  }
  const config = await karma.config.parseConfig(read, { singleRun: true, autoWatch: false, colors: false }, { promiseConfig: true, throwErrors: true });
  const server = new karma.Server(adjust(config), over);
  await server.start();
})().catch((error) => {
  process.stderr.write(`${told(error)}\n`);
  const place = placeIn(plain(told(error)));
  group(place.at_file ?? 'karma', place.at_file, told(error));
  cases.end();
  leave(1);
});
