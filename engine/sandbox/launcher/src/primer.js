// Runs in a primed Node before its job is there; nothing of it may be left for the program.
'use strict';
{
  const fs = require('fs'), os = require('os'), path = require('path'), Module = require('module');
  const [WAIT, START_ANEW] = [2000000011, 2000000012];
  delete require.cache[__filename];
  for (const key of Object.keys(Module._pathCache)) if (key.startsWith(__filename)) delete Module._pathCache[key];
  const primed = require('worker_threads').isMainThread;
  if (primed) {
    // What most programs use, and a little practice.
    for (const name of ['net', 'tty', 'stream', 'events', 'util', 'buffer', 'timers', 'url']) require(name);
    new Module('practice')._compile('class A { f(...a) { return a.map((x) => `${x}`); } } new A().f(1);', 'practice');
    os.getPriority(WAIT);
  }
  if (primed) try {
    const placeholder = process.argv[1];
    const { env } = process;
    const argv = Array.from({ length: Number(env.HOTCELL_ARGC) }, (_, n) => env[`HOTCELL_ARG_${n}`]);
    for (let n = 0; n < argv.length; n++) delete env[`HOTCELL_ARG_${n}`];
    delete env.HOTCELL_ARGC;
    process.chdir(fs.readlinkSync('/proc/self/cwd'));
    const script = path.resolve(argv[1]);
    // A folder, what is missing, and what cannot be read have messages of their own.
    fs.accessSync(script, fs.constants.R_OK);
    if (!fs.statSync(script).isFile()) throw new Error('no file');

    process.argv.splice(0, process.argv.length, process.execPath, script, ...argv.slice(2));
    process.execArgv.length = 0;
    if (process._preload_modules) process._preload_modules.length = 0;
    // The main program is looked for twice, each time by a function that returns before it runs.
    for (const name of ['_findPath', '_resolveFilename']) {
      const original = Module[name];
      Module[name] = function (request, ...rest) {
        if (request !== placeholder) return Reflect.apply(original, this, [request, ...rest]);
        Module[name] = original;
        return Reflect.apply(original, this, [script, ...rest]);
      };
    }
    os.getPriority(WAIT);
  } catch {
    os.getPriority(START_ANEW);
  }
}
