// Starts what prints TAP (node-tap, tape, ava, or a program of the project's) in a process of its own, and hands on what it
// prints, which hotcell reads: as it comes on the pipe, and as a whole in the report.
const { StringDecoder } = require('node:string_decoder');

const MAX_REPORT_BYTES = 48 << 20;
const CHUNK_CHARS = 16 << 10; // told at once
const LINGER = 1000; // milliseconds for what is still in a pipe that somebody holds open
const TAIL = 8000; // characters of standard error that are kept
const MAX_SEARCHED_CHARS = 256 << 10; // of a source file

const { output, filter, stop, plan } = words();

/** Source files of the project, of which some are read. */
function* sources(folder, left = { files: 5000 }) {
  let entries = [];
  try {
    entries = fs.readdirSync(folder, { withFileTypes: true });
  } catch {
    return;
  }
  for (const entry of entries) {
    if (entry.name === 'node_modules' || entry.name.startsWith('.')) continue;
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) yield* sources(file, left);
    else if (entry.isFile() && /\.[cm]?[jt]sx?$/.test(entry.name) && left.files-- > 0) yield file;
  }
}

/** ava shortens the names of files in front of its titles: which it means. */
function shortened() {
  const names = {};
  const files = [];
  for (const file of sources(TOP)) {
    if (!/from\s*['"]ava['"]|require\(\s*['"]ava['"]/.test(fs.readFileSync(file, 'utf8').slice(0, 65536))) continue;
    files.push(named(file));
    const parts = named(file).split(path.sep).filter((part) => part !== '__tests__');
    const last = parts.pop().replace(/\.spec\./, '.').replace(/\.test\./, '.').replace(/test-/, '').replace(/\.[^.]*$/, '');
    parts.push(last);
    for (let at = 0; at < parts.length; at += 1) {
      const short = parts.slice(at).join(' \u203a ');
      names[short] = short in names ? null : named(file);
    }
  }
  for (const short of Object.keys(names)) if (names[short] === null) delete names[short];
  return { names, only: files.length === 1 ? files[0] : undefined };
}

/** Notes the files with `.only`: tape and ava print nothing of the tests beside it. */
function noteOnly() {
  const loads = new RegExp(`(?:\\bfrom\\b|\\brequire\\s*\\(|\\bimport\\b)\\s*\\(?\\s*['"]${escape(plan.name)}['"]`);
  for (const file of sources(TOP)) {
    let text = '';
    try {
      text = fs.readFileSync(file, 'utf8').slice(0, MAX_SEARCHED_CHARS);
    } catch {
      // Nothing is said of it.
    }
    if (text.includes('.only') && loads.test(text) && hasOnly(text)) withOnly.add(named(file));
  }
}

/** The framework's program. */
function entry(about) {
  const bin = typeof about.bin === 'string' ? about.bin : about.bin?.[plan.name];
  return path.join(about.folder, bin ?? 'index.js');
}

/** Its version where it is there: a program of the project's may print by itself. */
function version() {
  try {
    return JSON.parse(fs.readFileSync(path.join(TOP, 'node_modules', plan.name, 'package.json'), 'utf8')).version;
  } catch {
    return undefined;
  }
}

/** Words that make a framework's program print TAP, and those for what is asked for. */
function own(about) {
  const titles = filter.split('::').slice(1).join('::').replace(/ #[0-9]+$/, '');
  const name = filter !== '' && !fs.existsSync(filter.split('::')[0]) ? filter : undefined;
  const all = [];
  if (plan.name === 'ava') {
    all.push('--tap');
    if (stop) all.push('--fail-fast');
    if (titles !== '' || name !== undefined) all.push(`--match=${titles || `*${name}*`}`);
  } else if (plan.name === 'tap') {
    all.push('--reporter=tap');
    if (stop) all.push('--bail');
    if (name !== undefined) all.push(`--grep=/${name.replaceAll('/', '\\/')}/`);
    // For some of the tests coverage is meaningless, and its thresholds do not apply.
    if (filter !== '') all.push(parseInt(about.version, 10) < 18 ? '--no-check-coverage' : '--allow-incomplete-coverage');
  }
  return all;
}

/** The report: what the program is, how it ended, and all that it printed. */
function write(about, text) {
  fs.mkdirSync(path.dirname(output), { recursive: true });
  fs.writeFileSync(output, `${JSON.stringify({ ...about, size: text.length })}\n`);
  fs.appendFileSync(output, text);
}

likeNpm();
let args;
let about = { version: version() };
if (plan.own) emit('session', { tool: plan.name, version: about.version ?? process.versions.node, ...runtime });
else about = installed(plan.name);
const script = new Script(plan);
if (!script.before()) {
  write({}, Buffer.alloc(0));
  leave(1);
}
const { names, only } = plan.name === 'ava' ? shortened() : { names: {} };
const program = { program: plan.program === plan.name ? only ?? plan.program : plan.program, nested: plan.nested, headings: plan.headings, bare: plan.bare, top: TOP, names };
args = plan.own ? [...plan.node, ...expanded(script.words)] : [...plan.node, entry(about), ...own(about), ...expanded(script.words)];
emit('program', program);
// ava writes a snapshot that is not there, which would be lost with the sandbox, and its test would pass each time. In CI it fails.
if (plan.name === 'ava' && !plan.own) process.env.AVA_FORCE_CI ??= 'ci';

const child = spawnBeside(process.execPath, args, { stdio: ['inherit', 'pipe', 'pipe'] });
const pieces = [];
const decoder = new StringDecoder('utf8');
let size = 0;
let heard = 0;
let said = '';
let printed = '';
let line = '';
let failed = false;
let over = false;

function take(text) {
  if (text === '') return;
  for (let at = 0; at < text.length; at += CHUNK_CHARS) emit('tap', { text: text.slice(at, at + CHUNK_CHARS) });
  printed = (printed + text).slice(-TAIL);
  const bytes = Buffer.from(text);
  size += bytes.length;
  if (size <= MAX_REPORT_BYTES) pieces.push(bytes);
  if (!stop || failed) return;
  // tape has no option for it.
  const lines = (line + text).split('\n');
  line = lines.pop().slice(0, 4000);
  failed = lines.some((one) => /^not ok\b/.test(one) && !/ # (?:todo|skip)\b/i.test(one));
  if (failed && plan.stops) child.kill();
}

child.stdout.on('data', (data) => {
  process.stdout.write(data);
  take(decoder.write(data));
});
child.stderr.on('data', (data) => {
  process.stderr.write(data);
  heard += data.length;
  said = (said + data.toString('utf8')).slice(-TAIL);
});
child.on('error', (error) => {
  process.stderr.write(`${told(error)}\n`);
  process.reallyExit(3);
});

function ended(status, signal) {
  if (over) return;
  over = true;
  take(decoder.end());
  const code = status ?? 128 + (require('node:os').constants.signals[signal] ?? 0);
  // From version 18 on, node-tap fails for coverage below 100 % and does not say so.
  const [row] = /^All files +\|[^\n]*/m.exec(printed) ?? [];
  const low = row?.split('|').slice(1, 5).some((share) => Number(share) < 100);
  if (plan.name === 'tap' && code !== 0 && low && !said.includes('global threshold')) {
    said += `coverage does not meet global threshold (100%), which is node-tap's own: ${row.trim()}\n`;
  }
  const end = { code, said: plain(said), stopped: stop && failed };
  emit('exit', end);
  const well = filter !== '' || script.after(code === 0);
  write({ ...program, ...end, cut: size > MAX_REPORT_BYTES }, Buffer.concat(pieces));
  if (filter === '' && ['tape', 'ava'].includes(plan.name)) noteOnly();
  leave(code === 0 && well ? 0 : 1, end.stopped ? 'stopped at the first test that is not good' : undefined);
}

/** Ends when a while has passed in which nothing came. On a busy host the time may be over before what is in the pipes is read: that comes before `setImmediate`. */
function lingers(status, signal, rounds = 30) {
  const before = size + heard;
  const later = () => (size + heard === before || rounds === 0 ? ended(status, signal) : lingers(status, signal, rounds - 1));
  setTimeout(() => setImmediate(later), LINGER);
}

child.on('exit', (status, signal) => lingers(status, signal));
child.on('close', ended);
