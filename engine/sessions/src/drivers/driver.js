'use strict';
// Interpreter of a session: a second thread reads cells as JSON lines from the descriptor that was standard input; answers go there too.
(() => {
  const fs = require('fs'), vm = require('vm'), util = require('util'), path = require('path');
  const { Worker } = require('worker_threads');
  const { createRequire } = require('module');
  // Given by the shell that started it; Node closes it in programs that it starts.
  const wire = 9;
  const MAX_TEXT = 64 * 1024;
  const bounded = (text) => text.length <= MAX_TEXT ? text
    : text.slice(0, MAX_TEXT / 2) + `\n[... ${text.length - MAX_TEXT} characters left out ...]\n` + text.slice(-MAX_TEXT / 2);
  const whole = (fd, data) => {
    let bytes = Buffer.from(data);
    while (bytes.length) {
      try { bytes = bytes.subarray(fs.writeSync(fd, bytes)); } catch (e) { if (e.code !== 'EAGAIN') throw e; }
    }
  };
  const send = (message) => { try { whole(wire, JSON.stringify(message) + '\n'); } catch { process.kill(process.pid, "SIGKILL"); } };

  const context = vm.createContext(Object.create(null));
  const own = vm.runInContext('globalThis', context);
  for (const name of ['Buffer', 'URL', 'URLSearchParams', 'TextEncoder', 'TextDecoder', 'AbortController', 'fetch', 'structuredClone',
    'setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'setImmediate', 'clearImmediate', 'queueMicrotask', 'performance', 'console', 'process']) {
    if (name in globalThis) Object.defineProperty(own, name, { value: globalThis[name], writable: true, configurable: true, enumerable: false });
  }
  own.require = createRequire(path.join(process.cwd(), 'cell.js'));
  own.global = own;

  const shared = new SharedArrayBuffer(8), running = new Int32Array(shared);
  const reader = new Worker(`
    const fs = require('fs'), { parentPort, workerData } = require('worker_threads');
    let rest = Buffer.alloc(0);
    const running = new Int32Array(workerData.running), piece = Buffer.alloc(65536);
    for (;;) {
      let length = 0;
      try { length = fs.readSync(9, piece, 0, piece.length, null); }
      catch (e) { if (e.code === 'EAGAIN') { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1); continue; } }
      if (!length) process.kill(process.pid, 'SIGKILL');
      rest = Buffer.concat([rest, piece.subarray(0, length)]);
      let end;
      while ((end = rest.indexOf(10)) >= 0) {
        const message = JSON.parse(rest.subarray(0, end).toString());
        rest = rest.subarray(end + 1);
        if (message.op === 'cell') parentPort.postMessage(message);
        else {
          // For a cell that has not begun yet.
          Atomics.store(running, 1, message.id);
          if (Atomics.load(running, 0) === message.id) process.kill(process.pid, 'SIGINT');
        }
      }
    }`, { eval: true, workerData: { running: shared } });

  // Leaves a promise that is waited for; a busy script is left by `breakOnSigint`.
  let stop = null;
  process.on('SIGINT', () => { if (stop) stop(); });
  process.on('uncaughtException', (error) => whole(2, `${error && error.stack || error}\n`));
  process.on('unhandledRejection', (error) => whole(2, `${error && error.stack || error}\n`));

  const failed = (error) => {
    if (error && error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' || error === interrupted) return { status: 'interrupted', error: 'interrupted\n' };
    let text = error && typeof error.stack === 'string' ? error.stack : `thrown: ${util.inspect(error)}`;
    const lines = text.split('\n');
    const ours = lines.findIndex((line) => / at .*(\[eval\]|node:vm|node:internal\/worker|evalmachine)/.test(line));
    if (ours > 0) text = lines.slice(0, ours).join('\n');
    return { status: 'error', error: bounded(text + '\n') };
  };
  const interrupted = new Error('interrupted');

  const run = async (cell) => {
    const filename = `<cell ${cell.id}>`;
    const importModuleDynamically = vm.constants && vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER;
    let script;
    try {
      script = new vm.Script(cell.code, { filename, importModuleDynamically });
    } catch (error) {
      if (!(error instanceof SyntaxError) || !/\bawait\b/.test(cell.code)) throw error;
      // An expression first, so that its value is known.
      try { script = new vm.Script(`(async () => (${cell.code}\n))()`, { filename, importModuleDynamically }); }
      catch { script = new vm.Script(`(async () => {${cell.code}\n})()`, { filename, importModuleDynamically }); }
    }
    let value = script.runInContext(context, { breakOnSigint: true });
    if (value && typeof value === 'object' && typeof value.then === 'function') {
      value = await Promise.race([value, new Promise((_, no) => { stop = () => no(interrupted); })]);
    }
    if (value === undefined) return { status: 'ok' };
    own._ = value;
    return { status: 'ok', value: bounded(util.inspect(value, { depth: 4, maxArrayLength: 200, maxStringLength: 20000 })) };
  };

  let line = Promise.resolve();
  reader.on('message', (cell) => {
    line = line.then(async () => {
      let answer;
      Atomics.store(running, 0, cell.id);
      try {
        if (Atomics.load(running, 1) === cell.id) throw interrupted;
        answer = await run(cell);
      } catch (error) { answer = failed(error); } finally { stop = null; Atomics.store(running, 0, 0); }
      answer.nonce = cell.nonce;
      for (const fd of [1, 2]) { try { whole(fd, cell.mark); } catch {} }
      send(answer);
    });
  });
  send({ op: 'ready' });
})();
