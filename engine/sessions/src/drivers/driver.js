'use strict';
// Interpreter of a session: a second thread reads cells as JSON lines from the descriptor that was standard input; answers go there too.
(() => {
  const fs = require('fs'), vm = require('vm'), util = require('util'), path = require('path');
  const { Worker } = require('worker_threads');
  const { createRequire } = require('module');
  // Given by the shell that started it; Node closes them in programs that it starts. Marks go by copies of the streams, which a cell may close or
  // put a file in the place of.
  const wire = 9, ends = [7, 8];
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
    const { Socket } = require('net'), { parentPort, workerData } = require('worker_threads');
    let rest = Buffer.alloc(0);
    const running = new Int32Array(workerData.running);
    // Waits for events, and not in a read, so that the interpreter can end.
    const socket = new Socket({ fd: 9, readable: true, writable: false });
    const gone = () => process.kill(process.pid, 'SIGKILL');
    socket.on('end', gone).on('error', gone).on('data', (piece) => {
      rest = Buffer.concat([rest, piece]);
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
    });`, { eval: true, workerData: { running: shared } });

  const leave = process.reallyExit;
  process.reallyExit = (code) => {
    try { whole(2, `process.exit(${Number(code) || 0}) ended the session\n`); } catch {}
    Reflect.apply(leave, process, [code]);
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
    if (/Cannot use import statement outside a module/.test(text)) text += '\na cell is no module: take `require(...)`, or `await import(...)`';
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

  // Statements with `await` run in a function. Its variables are shown to later cells by accessors of the global object, and its last
  // statement, where that is an expression, is what it returns. Node's own parser says what is what: by the errors of changed code.
  const body = (text, before = '') => `(async () => {${before}\n${text}\n})()`;
  const compiles = (text) => { try { new vm.Script(text); return true; } catch { return false; } };
  const RESERVED = new Set(`await break case catch class const continue debugger default delete do else enum export extends false finally for function
    if import in instanceof let new null return super switch this throw true try typeof var void while with yield`.split(/\s+/));
  const DECLARE = Symbol.for('hotcell.declare');
  Object.defineProperty(own, DECLARE, { value: (accessors) => {
    for (const [name, one] of Object.entries(Object.getOwnPropertyDescriptors(accessors))) {
      try { Object.defineProperty(own, name, { ...one, enumerable: false }); } catch {}
    }
  } });
  /** Names that code declares in its function: `let` of one of them, ahead of it, is an error that names it. */
  const declared = (code) => {
    const found = [];
    let words = [...new Set(code.match(/[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/gu))].filter((word) => !RESERVED.has(word));
    while (words.length) {
      try { new vm.Script(body(`let ${words.join(',')};${code}`)); break; } catch (error) {
        const name = (/^Identifier '(.*)' has already been declared$/.exec(error.message) || [])[1];
        if (!words.includes(name)) break;
        found.push(name);
        words = words.filter((word) => word !== name);
      }
    }
    return found;
  };
  /** Whether an earlier cell declared a name that no later one may declare. */
  const taken = (name) => {
    if (name in own) return false;
    try { new vm.Script(name).runInContext(context); return true; } catch (error) { return !/ is not defined$/.test(error.message); }
  };
  /** Code that returns its last statement, where that is an expression. */
  const returning = (code) => {
    // In a text or a comment a bracket is no error.
    const isCode = (at) => !compiles(body(`${code.slice(0, at)})${code.slice(at)}`));
    const bare = (text) => text.replace(/\/\*[^]*?\*\//g, '').replace(/\/\/.*$/gm, '').trim();
    const ends = [...code.matchAll(/[;\n]/g)].map((match) => match.index).slice(-200).reverse();
    let end = code.length;
    for (const at of ends.filter((at) => code[at] === ';')) if (bare(code.slice(at + 1, end)) === '' && isCode(at)) end = at;
    for (const at of [...ends.filter((at) => at < end), -1]) {
      const [head, tail] = [code.slice(0, at + 1), code.slice(at + 1, end)];
      const first = bare(tail);
      // Behind a line's end, only such words begin another statement.
      const begins = code[at] === '\n' ? /^(?!(?:in|instanceof|of)\b)[\p{ID_Start}$_0-9'"]/u.test(first) && !/\blet\s*$/.test(bare(head)) : first !== '';
      const other = /^(?:\{|(?:async\s+)?function\b|class\b|let\s*\[)/.test(first);
      if (begins && !other && compiles(`(async () => (${tail}\n))`) && compiles(body(head)) && (at < 0 || isCode(at))) return `${head}return (${tail}\n)`;
    }
    return code;
  };
  /** Whether code waits outside of its own functions: in a static block, as nowhere else, that is an error however it is written. */
  const awaits = (code) => /\bawait\b/.test(code) && !compiles(`class A { static {${code}\n} }`) && (compiles(body(code)) || !compiles(code));
  const statements = (code) => {
    // An expression first, so that its value is known.
    const whole = `(async () => (\n${code}\n))()`;
    if (compiles(whole)) return whole;
    if (!compiles(body(code)) || code.length > MAX_TEXT) return body(code);
    const names = declared(code);
    const again = names.find(taken);
    if (again !== undefined) throw new SyntaxError(`Identifier '${again}' has already been declared`);
    const accessor = (name, to) => `get ${name}() { return ${name}; }, set ${name}(${to}) { ${name} = ${to}; }`;
    const accessors = names.map((name) => accessor(name, name === '$' ? '_' : '$'));
    return body(returning(code), names.length ? `globalThis[Symbol.for('hotcell.declare')]({ ${accessors.join(', ')} });` : '');
  };

  const run = async (cell) => {
    if (kind === 'typescript') cell.code = strip(cell.code);
    const importModuleDynamically = vm.constants && vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER;
    const code = awaits(cell.code) ? statements(cell.code) : cell.code;
    const lineOffset = code === cell.code ? 0 : -1;
    const script = new vm.Script(code, { filename: `<cell ${cell.id}>`, lineOffset, importModuleDynamically });
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
      for (const fd of ends) { try { whole(fd, cell.mark); } catch {} }
      send(answer);
    });
  });
  send({ op: 'ready' });
})();
