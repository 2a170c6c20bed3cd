
// The report of a framework that writes none that says enough: one JSON object a line, and a last one with their number.
class Cases {
  constructor(output) {
    this.output = output;
    this.lines = [];
    this.write = fs.writeFileSync;
    this.make = fs.mkdirSync;
  }

  add(id, status, ms, text, file, line) {
    const details = text ? { details: clip(plain(text), 60000), message: clip(plain(text).split(/\n\s+at /)[0].trim(), 1000) } : {};
    this.lines.push(JSON.stringify({ e: 'case', id, status, ms, file, line, ...details }));
  }

  end() {
    this.lines.push(JSON.stringify({ e: 'done', count: this.lines.length }), '');
    this.make(path.dirname(this.output), { recursive: true });
    this.write(this.output, this.lines.join('\n'));
  }
}

/** An id, as short as it is read. */
const idOf = (file, titles) => clip([file, ...titles].join('::'), 7000);

const { inspect } = require('node:util');

/** What was thrown, with its stack. */
function told(error) {
  if (error === null || typeof error !== 'object') return String(error);
  const head = error.message === undefined ? '' : `${error.name ?? 'Error'}: ${error.message}`;
  // vitest takes the stack of a test that is out of time before that, with another message.
  const stack = typeof error.stack === 'string' ? error.stack.replace(/^Error: STACK_TRACE_ERROR\n?/, '') : '';
  // Anything may be thrown.
  if (head === '' && stack === '') return inspect(error, { customInspect: false });
  return head !== '' && stack.includes(String(error.message)) ? stack : `${head}\n${stack}`.trim();
}

/** Message of several errors, and the first one's place. */
function crashes(errors) {
  const all = errors.map((error) => crash(told(error)));
  const place = all.find((one) => one.at_file !== undefined) ?? {};
  return { ...place, message: clip(all.map((one) => one.message).join('\n\n'), 1000) };
}

/** Leaves out the sandbox's own words of the command line, and tells them. */
function words() {
  const [output, filter, stop, plan] = process.argv.splice(2, 4);
  return { output, filter, stop: stop === 'stop', plan: JSON.parse(plan) };
}

/** The manifest of a package that the project has; without it the run ends. */
function installed(name) {
  const resolve = require('node:module').createRequire(path.join(TOP, 'package.json')).resolve;
  for (const folder of resolve.paths(name)) {
    const manifest = path.join(folder, name, 'package.json');
    if (fs.existsSync(manifest)) {
      const about = JSON.parse(fs.readFileSync(manifest, 'utf8'));
      emit('session', { tool: name, version: about.version, ...runtime });
      return { folder: path.dirname(manifest), ...about };
    }
  }
  emit('missing', { what: name, ...runtime });
  process.stderr.write(`${name} is not installed in the project\n`);
  return process.exit(MISSING);
}

/** Ends with this code, whatever is left open. */
function leave(code, stopped) {
  emit('finish', { exit: code, stopped: notes(stopped) });
  process.reallyExit(code);
}

/** A pattern that is this text only. */
const escape = (text) => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');

/** A pattern of all of these titles in a row. Of several tests of one title, those behind the first have a number here. */
function titlesOf(titles) {
  const whole = titles.join(' ');
  const numbered = /^(.*) #[0-9]+$/s.exec(whole);
  return numbered ? `(?:${escape(whole)}|${escape(numbered[1])})` : escape(whole);
}
