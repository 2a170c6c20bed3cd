'use strict';
// Tells hotcell, outside of the sandbox, which test starts and which has ended: one JSON object a line, on a pipe.
//
// The tests may run in the same process and do anything to it. So what is needed later is looked up now, the pipe
// moves out of their way, and nothing that goes wrong here ever reaches them.
const fs = require('node:fs');
const path = require('node:path');

const PIPE = 3;
const WRITE_TIMEOUT_MS = 5000; // for all writes together, while they wait for a reader
const MISSING = 86; // the exit code when the framework is not installed
const TOP = process.cwd();

const emit = (() => {
  const { openSync, closeSync, fstatSync, writeSync, constants } = fs;
  const { stringify } = JSON;
  const { wait } = Atomics;
  const { now } = Date;
  const from = Buffer.from.bind(Buffer);
  const cell = new Int32Array(new SharedArrayBuffer(4));
  let fd = null;
  let is = null;
  let patience = WRITE_TIMEOUT_MS;
  try {
    const about = fstatSync(PIPE);
    if (about.isFIFO()) {
      // Node closes what it opens in the programs that it starts.
      fd = openSync(`/proc/self/fd/${PIPE}`, constants.O_WRONLY | constants.O_NONBLOCK);
      closeSync(PIPE);
      is = [about.dev, about.ino];
    }
  } catch {
    // Nothing is reported, and that is not taken for passed.
  }
  const say = (e, fields) => {
    if (fd === null) return;
    try {
      const about = fstatSync(fd);
      if (about.dev !== is[0] || about.ino !== is[1]) throw new Error('the pipe is gone');
      let data = from(`${stringify({ e, ...fields })}\n`);
      while (data.length > 0) {
        const since = now();
        try {
          data = data.subarray(writeSync(fd, data));
        } catch (error) {
          if (error.code !== 'EAGAIN' || patience <= 0) throw error;
          wait(cell, 0, 0, 5);
          patience -= now() - since;
        }
      }
    } catch {
      // Half a line may be out; what follows would be read as its end. The run counts as not reported.
      fd = null;
    }
  };
  say.pipe = () => fd;
  return say;
})();

/** Head and tail of a text. */
function clip(text, most) {
  const whole = String(text);
  if (whole.length <= most) return whole;
  const left = whole.length - most;
  return `${whole.slice(0, most / 2)}\n... ${left} characters left out ...\n${whole.slice(-most / 2)}`;
}

/** A path relative to the project; null outside of it and in what is installed there. */
function inside(file) {
  const relative = path.relative(TOP, path.resolve(TOP, file.replace(/^file:\/\//, '')));
  return relative === '' || relative.startsWith('..') || /(^|\/)node_modules\//.test(relative) ? null : relative;
}

/** A path relative to the project, wherever it is. */
const named = (file) => path.relative(TOP, path.resolve(TOP, file)) || file;

// Colours, and what else a terminal would obey.
const plain = (text) => String(text).replace(/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007]*\u0007)/g, '');

/** The first place in the project that a message with a stack names. */
function placeIn(text) {
  for (const pattern of [
    /(?:^|[\s(])((?:file:\/\/)?[^\s():]+\.[cm]?[jt]sx?):(\d+)(?::\d+)?/gm, // a frame, or the head of a syntax error
    /([^\s():]+\.[cm]?[jt]sx?): [^\n]*\((\d+):\d+\)/gm, // of Babel
  ]) {
    for (const [, file, line] of text.slice(0, 60000).matchAll(pattern)) {
      const at = inside(file);
      if (at !== null) return { at_file: clip(at, 4000), at_line: Number(line) };
    }
  }
  return {};
}

/** Message and place of what went wrong. */
function crash(text) {
  const whole = plain(text);
  return { message: clip(whole.split(/\n\s+at /)[0].trim(), 1000), ...placeIn(whole) };
}

// Message of a test that was skipped in such a file. These words are counted outside.
const FOCUSED = 'skipped; its file has tests with .only';
const focuses = new Map();

/** A text without its comments, and with empty texts in quotes. */
function codeOf(text) {
  const beside = /\/\*[^]*?\*\/|^\s*\/\/.*$|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\[^])*`/gm;
  return text.replace(beside, (part) => (/^['"`]/.test(part) ? part[0] + part[0] : '\n'));
}

/** True for a text that chooses some of its own tests, by `.only`, `fit` or `fdescribe`. A project may have its own `model.fit()`. */
function hasOnly(text) {
  const code = codeOf(text);
  return (
    /(?<![.\w$])(?:\w*[tT]est|it|describe|suite|context|specify|tape)(?:\.\w+)*\.only\b/.test(code) ||
    /(?:^|[;{}])\s*f(?:it|describe)(?:\.\w+)*\s*[(`]/m.test(code)
  );
}

/** True for a file with such a text: frameworks tell of its other tests as skipped, as if each said so itself. */
function choosesSome(file) {
  if (!focuses.has(file)) {
    let text = '';
    try {
      text = fs.readFileSync(file, 'utf8');
    } catch {
      // Nothing is said of it.
    }
    focuses.set(file, hasOnly(text));
  }
  return focuses.get(file);
}

// Ids of tests that the project itself repeated, and that passed at a later attempt.
const passedLate = [];
// Files with such texts, of whose other tests a framework says nothing at all.
const withOnly = new Set();

/** The first of some names. */
const few = (names) => names.slice(0, 3).map((name) => clip(name, 200)).join(', ') + (names.length > 3 ? ', ...' : '');

/** Notes about a whole run. */
function notes(stopped) {
  const count = passedLate.length;
  const said = count > 0 ? `${count} ${count === 1 ? 'test' : 'tests'} passed at a later attempt only: ${few(passedLate)}` : undefined;
  const left = withOnly.size > 0 ? `the other tests of files with .only did not run: ${few([...withOnly])}` : undefined;
  return [stopped, said, left].filter((note) => note !== undefined).join('; ') || undefined;
}

const runtime = { interpreter: process.versions.node };

