'use strict';
// Tells in tape's own output of which file a test is: tape loads all files first, and names none.
const Module = require('node:module');
const path = require('node:path');

const TOP = process.cwd();
const { _load: load } = Module;
const write = process.stdout.write.bind(process.stdout);
const known = new WeakMap();

/** The project's file that calls. */
function caller() {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 30;
  const { stack } = new Error('where');
  Error.stackTraceLimit = stackTraceLimit;
  for (const [, file] of String(stack).matchAll(/(?:\(|at )(?:file:\/\/)?(\/[^\n():]+):\d+:\d+\)?$/gm)) {
    const relative = path.relative(TOP, file);
    if (!relative.startsWith('..') && !/(^|\/)node_modules\//.test(relative)) return relative;
  }
  return undefined;
}

function followed(Test) {
  return new Proxy(Test, {
    construct(target, args, made) {
      const test = Reflect.construct(target, args, made === undefined ? target : made);
      try {
        const file = caller();
        if (file !== undefined) test.once('prerun', () => write(`# @hotcell file ${file}\n`));
      } catch {
        // It has no name then.
      }
      return test;
    },
  });
}

Module._load = function hotcell(request, parent, ...rest) {
  const loaded = Reflect.apply(load, this, [request, parent, ...rest]);
  if (typeof loaded !== 'function' || !/(^|\/)lib\/test(\.js)?$/.test(request) || !/\/node_modules\/tape\/index\.js$/.test(parent?.filename ?? '')) return loaded;
  if (!known.has(loaded)) known.set(loaded, followed(loaded));
  return known.get(loaded);
};
