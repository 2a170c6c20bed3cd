'use strict';
// Interpreter of a session: a second thread reads cells as JSON lines from the descriptor that was standard input; answers go there too.
(() => {
  const fs = require('fs'), vm = require('vm'), util = require('util'), path = require('path');
  const { Worker } = require('worker_threads');
  const { createRequire } = require('module');
  // Given by the shell that started it; Node closes it in programs that it starts.
  const wire = 9;
  const MAX_TEXT = 64 * 1024, MAX_ENTRIES = 20000, MAX_DEPTH = 24;
  const home = require('os').homedir(), kind = process.argv[1] || 'node';
  const strip = require('module').stripTypeScriptTypes;
  if (kind === 'typescript' && !strip) {
    fs.writeSync(2, `TypeScript needs Node.js 22.13 or newer, which takes types off; this is ${process.version}\n`);
    process.exit(1);
  }
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
        if (message.op !== 'interrupt') parentPort.postMessage(message);
        else {
          // For a cell that has not begun yet.
          Atomics.store(running, 1, message.id);
          if (Atomics.load(running, 0) === message.id) process.kill(process.pid, 'SIGINT');
        }
      }
    }`, { eval: true, workerData: { running: shared } });

  // The second thread waits in a system call, and an ordinary end would wait for it.
  process.reallyExit = (code) => {
    try { whole(2, `process.exit(${Number(code) || 0}) ended the session\n`); } catch {}
    process.kill(process.pid, 'SIGKILL');
  };
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

  // Entries of the home folder, or of its folder of outputs alone; folders are entered, links are not.
  const listed = (everything) => {
    const found = [], waiting = [[everything ? home : path.join(home, 'outputs'), 0]];
    try { if (!fs.lstatSync(waiting[0][0]).isDirectory()) return []; } catch { return []; }
    while (waiting.length && found.length < MAX_ENTRIES) {
      const [folder, depth] = waiting.pop();
      let names = [];
      try { names = fs.readdirSync(folder).slice(0, MAX_ENTRIES); } catch { continue; }
      for (const name of names) {
        const full = path.join(folder, name), below = path.relative(home, full);
        let about;
        try { about = fs.lstatSync(full); } catch { continue; }
        if (about.isDirectory()) {
          if (depth < MAX_DEPTH && below !== 'node_modules') waiting.push([full, depth + 1]);
          continue;
        }
        found.push([below, about.isFile() ? 'file' : about.isSymbolicLink() ? 'link' : 'other', about.size, Math.max(0, Math.trunc(about.mtimeMs * 1000))]);
      }
    }
    return found;
  };
  const fileAnswer = (asked) => {
    const full = path.join(home, asked.path);
    try {
      if (asked.op === 'put') {
        fs.mkdirSync(path.dirname(full), { recursive: true });
        fs.writeFileSync(full, Buffer.from(asked.data, 'base64'), { flag: asked.append ? 'a' : 'w' });
        return { value: String(fs.statSync(full).size) };
      }
      const fd = fs.openSync(full, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK);
      try {
        if (!fs.fstatSync(fd).isFile()) return { error: 'it is no file' };
        const bytes = Buffer.alloc(asked.most + 1);
        let length = 0;
        for (let got; length < bytes.length && (got = fs.readSync(fd, bytes, length, bytes.length - length, null)) > 0;) length += got;
        return { contents: bytes.subarray(0, length).toString('base64') };
      } finally { fs.closeSync(fd); }
    } catch (error) { return { error: error.code || String(error) }; }
  };

  const run = async (cell) => {
    if (kind === 'typescript') cell.code = strip(cell.code);
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
    const text = util.inspect(value, { depth: 4, maxArrayLength: 200, maxStringLength: 20000 });
    const answer = { status: 'ok', value: bounded(text) };
    if (typeof value === 'object' && value !== null && text.length > 2000) {
      try {
        const data = JSON.stringify(value);
        if (data && data.length <= 1 << 20) answer.data = [['json', data]];
      } catch {}
    }
    return answer;
  };

  let line = Promise.resolve();
  reader.on('message', (cell) => {
    line = line.then(async () => {
      let answer;
      if (cell.op !== 'cell') { send({ ...fileAnswer(cell), nonce: cell.nonce }); return; }
      Atomics.store(running, 0, cell.id);
      try {
        if (Atomics.load(running, 1) === cell.id) throw interrupted;
        answer = await run(cell);
      } catch (error) { answer = failed(error); } finally { stop = null; Atomics.store(running, 0, 0); }
      try { answer.files = listed(cell.list); } catch {}
      answer.nonce = cell.nonce;
      for (const fd of [1, 2]) { try { whole(fd, cell.mark); } catch {} }
      send(answer);
    });
  });
  send({ op: 'ready' });
})();
