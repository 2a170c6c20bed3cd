// In the page, after the adapters of jasmine and mocha and before the project's files: leaves out what nobody asked for, and tells
// which test begins and which has ended. Karma itself tells only of ends, in lots of 50, and of no test's file.
(function () {
  'use strict';
  const karma = window.__karma__;
  const asked = (karma.config && karma.config.hotcell) || {};
  // jsdom shares a process with karma: a function of the driver's is called at once, also by a test that never returns.
  let say = (what) => karma.info({ hotcell: what });
  for (let one = window; ; one = one.parent) {
    if (typeof one.hotcellSays === 'function') {
      const call = one.hotcellSays;
      say = (what) => call(JSON.stringify(what));
      break;
    }
    if (one === one.parent) break;
  }

  /** The file of the project that calls this: the first on the stack that is not installed. */
  function caller() {
    for (const [, place] of String(new Error().stack).matchAll(/https?:\/\/[^/\s]+((?:\/[^\s?:)]*)?\/(?:base|absolute)\/[^\s?:)]+)/g)) {
      if (!/\/node_modules\/|hotcell_karma_page\.js$/.test(place)) return place;
    }
    return '';
  }

  /** Whether a test was asked for. What says where it is wants all of its titles; a pattern, a part of them. */
  function wanted(file, titles) {
    if (asked.file && !`${decodeURIComponent(file)}/`.startsWith(`${asked.file.replace(/\/$/, '')}/`)) return false;
    if (asked.titles && titles.join('::') !== asked.titles) return false;
    return !asked.pattern || new RegExp(asked.pattern).test(titles.join(' '));
  }

  const clock = window.performance && window.performance.now ? window.performance.now.bind(window.performance) : Date.now;

  function ofJasmine(env) {
    const files = new Map();
    for (const name of ['it', 'fit', 'xit']) {
      const made = window[name];
      if (typeof made !== 'function') continue;
      window[name] = function () {
        const spec = made.apply(this, arguments);
        if (spec && spec.id !== undefined) files.set(spec.id, caller());
        return spec;
      };
    }
    const all = () => {
      const found = new Map();
      const walk = (suite, above) => {
        for (const one of suite.children || []) {
          const titles = [...above, one.description];
          if (one.children) walk(one, titles);
          else found.set(one.id, titles);
        }
      };
      walk(env.topSuite(), []);
      return found;
    };
    let titles = new Map();
    let since = 0;
    // karma ends the page at the first thing that goes wrong beside the tests: it hears of them when all have run.
    const held = [];
    const above = [];
    let suite = [];
    const { error, complete } = karma;
    karma.error = function (message) {
      if (typeof message !== 'string' || !message.startsWith('An error was thrown in afterAll')) return error.apply(this, arguments);
      held.push(message);
      say({ e: 'broken', text: message, titles: suite });
      return false;
    };
    karma.complete = function () {
      return held.length > 0 ? error.call(this, held.join('\n\n')) : complete.apply(this, arguments);
    };
    const left = (spec) => !wanted(files.get(spec.id) || '', titles.get(spec.id) || []);
    const told = (spec) => ({ file: files.get(spec.id) || '', titles: titles.get(spec.id) || [spec.description] });
    const text = (failures) => (failures || []).map((one) => (one.stack && one.stack.includes(one.message) ? one.stack : `${one.message}\n${one.stack || ''}`)).join('\n\n');
    env.addReporter({
      suiteStarted(result) {
        above.push(result.description);
      },
      suiteDone() {
        suite = above.slice();
        above.pop();
      },
      specStarted(spec) {
        if (left(spec)) return;
        since = clock();
        say({ e: 'start', ...told(spec) });
      },
      specDone(spec) {
        if (left(spec)) return;
        const status = { passed: 'passed', failed: 'failed' }[spec.status] || 'skipped';
        say({ e: 'end', status, ms: status === 'skipped' ? 0 : clock() - since, text: status === 'skipped' ? spec.pendingReason : text(spec.failedExpectations), ...told(spec) });
      },
      jasmineDone(result) {
        suite = [];
        if (result && result.incompleteReason) say({ e: 'focus', text: result.incompleteReason });
      },
    });
    const start = karma.start;
    karma.start = function () {
      titles = all();
      const specFilter = env.configuration().specFilter;
      // karma's own adapter asks the one that was there before.
      env.configure({ specFilter: (spec) => specFilter(spec) && !left(spec) });
      say({ e: 'begin', count: [...titles.keys()].filter((id) => !left({ id })).length });
      return start.apply(this, arguments);
    };
  }

  function ofMocha(mocha, Mocha) {
    const files = new WeakMap();
    const add = Mocha.Suite.prototype.addTest;
    Mocha.Suite.prototype.addTest = function (test) {
      files.set(test, caller());
      return add.apply(this, arguments);
    };
    const titles = (test) => test.titlePath();
    const told = (test) => ({ file: files.get(test) || (test.ctx && test.ctx.currentTest && files.get(test.ctx.currentTest)) || '', titles: titles(test) });
    const prune = (suite) => {
      suite.tests = suite.tests.filter((test) => wanted(files.get(test) || '', titles(test)));
      suite.suites.forEach(prune);
    };
    const text = (error) => {
      if (error === null || typeof error !== 'object') return String(error);
      const stack = typeof error.stack === 'string' ? error.stack : '';
      return stack.includes(String(error.message)) ? stack : `${error.name || 'Error'}: ${error.message}\n${stack}`;
    };
    const run = mocha.run;
    mocha.run = function () {
      prune(mocha.suite);
      const runner = run.apply(mocha, arguments);
      const open = new Map();
      const start = (test) => {
        // A repetition is not another test.
        if (open.has(test.fullTitle())) return;
        open.set(test.fullTitle(), clock());
        say({ e: 'start', ...told(test) });
      };
      const end = (test, status, more) => {
        const since = open.get(test.fullTitle());
        open.delete(test.fullTitle());
        say({ e: 'end', status, ms: status === 'skipped' || since === undefined ? 0 : clock() - since, text: more, ...told(test) });
      };
      say({ e: 'begin', count: runner.total });
      runner.on('test', start);
      runner.on('pass', (test) => end(test, 'passed'));
      runner.on('pending', (test) => {
        start(test);
        end(test, 'skipped');
      });
      runner.on('fail', (test, error) => {
        if (test.type === 'hook') say({ e: 'hook', text: text(error), ...told(test) });
        else end(test, 'failed', text(error));
      });
      return runner;
    };
  }

  if (window.jasmine && typeof window.jasmine.getEnv === 'function') ofJasmine(window.jasmine.getEnv());
  else if (window.mocha && window.Mocha && window.Mocha.Suite) ofMocha(window.mocha, window.Mocha);
  else if (asked.file || asked.titles || asked.pattern) karma.error('hotcell can choose tests of jasmine and mocha only: leave --filter out');
})();
