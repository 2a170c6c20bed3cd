//! Knowledge about Python's library: not what is dangerous, only what things are.

use crate::language::Language;
use crate::value::Origin;

/// True for builtins, so that an unbound name can be resolved to one.
pub(super) fn is_builtin(name: &str) -> bool {
    matches!(
        name,
        "eval"
            | "exec"
            | "compile"
            | "open"
            | "__import__"
            | "getattr"
            | "setattr"
            | "delattr"
            | "globals"
            | "locals"
            | "vars"
            | "input"
            | "chr"
            | "ord"
            | "bytes"
            | "bytearray"
            | "str"
            | "int"
            | "list"
            | "tuple"
            | "set"
            | "dict"
            | "map"
            | "filter"
            | "range"
            | "reversed"
            | "iter"
            | "next"
            | "zip"
            | "print"
            | "staticmethod"
            | "classmethod"
            | "type"
            | "object"
            | "help"
            | "breakpoint"
            | "len"
            | "format"
            | "repr"
            | "ascii"
            | "sorted"
            | "max"
            | "min"
            | "get_ipython"
            | "enumerate"
            | "sum"
            | "any"
            | "all"
            | "hex"
            | "bin"
            | "super"
            | "isinstance"
            | "memoryview"
            | "__builtins__"
    )
}

/// True for modules whose members run programs or code, and for native libraries, whose members are called as machine
/// code.
pub(super) fn is_powerful(name: &str) -> bool {
    const MODULES: &[&str] =
        &["os", "subprocess", "builtins", "sys", "importlib", "ctypes", "shutil", "posix"];
    let is_library =
        name.starts_with("ctypes.") && ["DLL", "dll", "pythonapi"].iter().any(|part| name.contains(part));
    MODULES.contains(&name) || is_library || name.starts_with("cffi.FFI().dlopen()")
}

/// Origin of a call's result or a name's value; empty for everything ordinary.
pub(super) fn origin(name: &str) -> Origin {
    let last = name.rsplit('.').next().unwrap_or(name);
    let by_method = match last {
        "recv" | "recvfrom" | "recv_into" | "recvmsg" | "recv_bytes" | "getresponse" | "retrbinary" => {
            Origin::NET
        }
        "decrypt" | "decrypt_and_verify" => Origin::DECODED,
        "get_frozen_credentials" => Origin::SECRET,
        "b32encode" | "b64encode" | "urlsafe_b64encode" | "b16encode" | "hexlify" | "hex" => Origin::ENCODED,
        "encrypt" | "encrypt_and_digest" | "encryptor" => Origin::ENCRYPTED,
        "communicate" | "check_output" | "getoutput" | "getstatusoutput" => Origin::OUTPUT,
        _ => Origin::default(),
    };
    by_method
        | match name {
            "requests.get"
            | "requests.post"
            | "requests.request"
            | "requests.put"
            | "requests.Session().get"
            | "requests.session().get"
            | "requests.Session().post"
            | "urllib.request.urlopen"
            | "urllib.urlopen"
            | "urllib2.urlopen"
            | "httpx.get"
            | "httpx.post"
            | "httpx.Client().get"
            | "httpx.stream"
            | "urllib3.PoolManager().request"
            | "aiohttp.ClientSession().get"
            | "websocket.create_connection"
            | "websockets.connect"
            | "dns.resolver.resolve"
            | "dns.resolver.query"
            | "ftplib.FTP().retrlines"
            | "paho.mqtt.client.Client"
            | "urllib.request.build_opener"
            | "urllib.request.URLopener"
            | "socket.create_connection().makefile" => Origin::NET,
            "imaplib.IMAP4_SSL().fetch"
            | "imaplib.IMAP4().fetch"
            | "imaplib.IMAP4_SSL().uid"
            | "imaplib.IMAP4().uid"
            | "poplib.POP3_SSL().retr"
            | "poplib.POP3().retr"
            | "imap_tools.MailBox().fetch" => Origin::NET | Origin::MAIL,
            "input" | "sys.argv" | "sys.stdin" | "raw_input" | "getpass.getpass" => Origin::INPUT,
            "os.environ" | "os.environ.copy" | "os.environ.items" => Origin::ENV,
            "http.server.BaseHTTPRequestHandler().rfile"
            | "http.server.BaseHTTPRequestHandler().path"
            | "http.server.BaseHTTPRequestHandler().headers"
            | "http.server.SimpleHTTPRequestHandler().rfile"
            | "http.server.SimpleHTTPRequestHandler().path"
            | "socketserver.StreamRequestHandler().rfile" => Origin::REQUEST,
            "flask.request" | "bottle.request" | "django.http.HttpRequest" => Origin::REQUEST | Origin::INPUT,
            "subprocess.run"
            | "subprocess.Popen"
            | "subprocess.check_output"
            | "os.popen"
            | "subprocess.getoutput"
            | "asyncio.create_subprocess_shell"
            | "asyncio.create_subprocess_exec"
            | "commands.getoutput" => Origin::OUTPUT,
            "platform.node" | "socket.gethostname" | "getpass.getuser" | "os.getlogin" | "platform.uname"
            | "os.uname" | "socket.getfqdn" | "uuid.getnode" | "platform.platform" | "psutil.users" => {
                Origin::HOST
            }
            "PIL.ImageGrab.grab"
            | "pyautogui.screenshot"
            | "mss.mss"
            | "cv2.VideoCapture"
            | "sounddevice.rec"
            | "pyaudio.PyAudio"
            | "pyperclip.paste"
            | "win32clipboard.GetClipboardData"
            | "tkinter.Tk().clipboard_get" => Origin::KEYS,
            "tempfile.mkdtemp"
            | "tempfile.mkstemp"
            | "tempfile.gettempdir"
            | "tempfile.TemporaryDirectory"
            | "tempfile.NamedTemporaryFile"
            | "tempfile.mktemp"
            | "tempfile.TemporaryFile" => Origin::TEMP,
            "os.path.expanduser" => Origin::default(),
            "pathlib.Path.home" => Origin::HOME,
            "os.walk"
            | "os.listdir"
            | "os.scandir"
            | "glob.glob"
            | "glob.iglob"
            | "os.fwalk"
            | "pathlib.Path().rglob"
            | "pathlib.Path().glob"
            | "pathlib.Path().iterdir"
            | "pathlib.Path().walk"
            | "pathlib.Path.home().rglob"
            | "pathlib.Path.home().glob" => Origin::TREE,
            "os.urandom"
            | "secrets.token_bytes"
            | "random.randbytes"
            | "Crypto.Random.get_random_bytes"
            | "random._urandom" => Origin::RANDOM,
            "pickle.loads" | "pickle.load" | "marshal.loads" | "dill.loads" => Origin::PICKLED,
            "compile" => Origin::CODE,
            "open"
            | "io.open"
            | "codecs.open"
            | "pathlib.Path().read_text"
            | "pathlib.Path().read_bytes"
            | "pathlib.Path().open" => Origin::FILE,
            "browser_cookie3.chrome"
            | "browser_cookie3.load"
            | "browser_cookie3.firefox"
            | "keyring.get_password"
            | "win32crypt.CryptUnprotectData" => Origin::SECRET,
            "mmap.mmap" | "ctypes.windll.kernel32.VirtualAlloc" => Origin::MAPPED,
            _ if crate::rules::asks_model(name) => Origin::MODEL,
            _ if name.starts_with("xmlrpc.client.ServerProxy().") || crate::rules::receives(name) => {
                Origin::NET
            }
            _ => Origin::default(),
        }
}

/// Index and language of a call's argument that is executed.
pub(super) fn sink(name: &str) -> Option<(Language, usize)> {
    Some(match name {
        "eval"
        | "exec"
        | "compile"
        | "execfile"
        | "code.InteractiveInterpreter().runsource"
        | "code.InteractiveInterpreter().runcode"
        | "code.InteractiveConsole().push"
        | "code.InteractiveConsole().runsource"
        | "code.InteractiveConsole().runcode"
        | "builtins.eval"
        | "timeit.timeit"
        | "timeit.Timer"
        | "_xxsubinterpreters.run_string"
        | "cProfile.run"
        | "profile.run"
        | "pdb.run"
        | "pdb.runeval"
        | "pdb.runctx"
        | "profile.runctx"
        | "cProfile.runctx"
        | "bdb.Bdb().run"
        | "bdb.Bdb().runeval"
        | "bdb.Bdb().runctx"
        | "pdb.Pdb().run"
        | "pdb.Pdb().runeval"
        | "pdb.Pdb().runctx"
        | "trace.Trace().run"
        | "trace.Trace().runctx"
        | "profile.Profile().run"
        | "profile.Profile().runctx"
        | "cProfile.Profile().run"
        | "cProfile.Profile().runctx"
        | "doctest.debug_src"
        | "doctest.debug_script"
        | "numexpr.evaluate"
        | "doctest.script_from_examples" => (Language::Python, 0),
        "os.system"
        | "os.popen"
        | "get_ipython().system"
        | "get_ipython().getoutput"
        | "IPython.get_ipython().system"
        | "subprocess.getoutput"
        | "subprocess.getstatusoutput"
        | "commands.getoutput"
        | "commands.getstatusoutput"
        | "asyncio.create_subprocess_shell"
        | "asyncio.subprocess.create_subprocess_shell"
        | "imaplib.IMAP4_stream"
        | "pipes.Template().append"
        | "pipes.Template().prepend"
        | "popen2.popen2"
        | "posix.system"
        | "nt.system"
        | "os.startfile"
        | "pexpect.spawn"
        | "pexpect.run"
        | "paramiko.SSHClient().exec_command"
        | "invoke.run"
        | "fabric.api.run"
        | "fabric.api.local" => (Language::Bash, 0),
        "pydoc.pipepager" | "pydoc.tempfilepager" | "pydoc.pipe_pager" | "pydoc.tempfile_pager" => {
            (Language::Bash, 1)
        }
        _ => {
            let (_, method) = name.rsplit_once('.')?;
            match method {
                "execute" | "executescript" | "executemany" | "raw" | "read_sql" | "exec_driver_sql"
                | "execute_sql" => (Language::Sql, 0),
                "exec_command" => (Language::Bash, 0),
                "subprocess_shell" => (Language::Bash, 1),
                _ => (Language::Bash, crate::rules::line_at(name)?),
            }
        }
    })
}

/// Place of the command line in a call that runs a program given as a list or a line.
pub(super) fn spawns(name: &str) -> Option<Spawn> {
    Some(match name {
        "subprocess.run"
        | "subprocess.call"
        | "subprocess.check_call"
        | "subprocess.check_output"
        | "subprocess.Popen"
        | "psutil.Popen"
        | "webbrowser.GenericBrowser"
        | "webbrowser.BackgroundBrowser" => Spawn::List(0),
        "distutils.spawn.spawn" | "setuptools._distutils.spawn.spawn" => Spawn::List(0),
        // Helpers of the interpreter's own tests, given the arguments of Python.
        "test.support.script_helper.spawn_python"
        | "test.support.script_helper.assert_python_ok"
        | "test.support.script_helper.assert_python_failure"
        | "test.support.script_helper.run_python_until_end" => Spawn::Python,
        "asyncio.create_subprocess_exec" | "asyncio.subprocess.create_subprocess_exec" => Spawn::Rest(0),
        "os.execl" | "os.execle" | "os.execlp" | "os.execlpe" => Spawn::Rest(1),
        "os.execv"
        | "os.execve"
        | "os.execvp"
        | "os.execvpe"
        | "os.posix_spawn"
        | "os.posix_spawnp"
        | "multiprocessing.util.spawnv_passfds"
        | "_posixsubprocess.fork_exec" => Spawn::List(1),
        "os.spawnl" | "os.spawnle" | "os.spawnlp" | "os.spawnlpe" => Spawn::Rest(2),
        "os.spawnv" | "os.spawnve" | "os.spawnvp" | "os.spawnvpe" => Spawn::List(2),
        "pty.spawn" | "shutil.os.execvp" => Spawn::List(0),
        _ => return None,
    })
}

/// Place of a spawned command line.
pub(super) enum Spawn {
    /// A list (or a text) at this position.
    List(usize),
    /// All arguments from this position on.
    Rest(usize),
    /// All arguments, of Python.
    Python,
}

/// Calls that call one of their arguments: its position or keyword.
pub(super) fn calls_argument(name: &str) -> Option<(usize, &'static str)> {
    Some(match name {
        "contextlib.ExitStack().callback"
        | "contextlib.AsyncExitStack().callback"
        | "contextlib.AsyncExitStack().push_async_callback"
        | "bdb.Bdb().runcall"
        | "pdb.Pdb().runcall"
        | "pdb.runcall"
        | "trace.Trace().runfunc"
        | "profile.Profile().runcall"
        | "cProfile.Profile().runcall" => (0, "callback"),
        "map"
        | "filter"
        | "functools.partial"
        | "functools.reduce"
        | "atexit.register"
        | "asyncio.to_thread"
        | "operator.call"
        | "anyio.run"
        | "anyio.to_thread.run_sync"
        | "anyio.from_thread.run"
        | "anyio.from_thread.run_sync"
        | "trio.run"
        | "trio.to_thread.run_sync"
        | "starlette.concurrency.run_in_threadpool"
        | "fastapi.concurrency.run_in_threadpool"
        | "gevent.spawn"
        | "eventlet.spawn"
        | "twisted.internet.threads.deferToThread"
        | "contextvars.copy_context().run"
        | "contextvars.Context().run" => (0, "function"),
        "weakref.finalize" => (1, "func"),
        "threading.Thread"
        | "multiprocessing.Process"
        | "threading.Timer"
        | "multiprocessing.context.Process"
        | "signal.signal" => (1, "target"),
        "sched.scheduler().enter" | "sched.scheduler().enterabs" => (2, "action"),
        "_thread.start_new_thread" | "thread.start_new_thread" => (0, "function"),
        _ => {
            let (_, method) = name.rsplit_once('.')?;
            match method {
                "submit"
                | "apply_async"
                | "apply"
                | "call_soon"
                | "call_soon_threadsafe"
                | "starmap"
                | "map_async"
                | "addCleanup"
                | "addClassCleanup"
                | "addModuleCleanup" => (0, "fn"),
                "map" | "imap" | "imap_unordered" if maps_over(name) => (0, "fn"),
                "call_later" | "call_at" | "run_in_executor" | "after" => (1, "callback"),
                _ => return None,
            }
        }
    })
}

/// True for functions and methods that call a function for each element of what they are given.
pub(super) fn maps_over(name: &str) -> bool {
    matches!(name, "map" | "filter")
        || name.rsplit_once('.').is_some_and(|(owner, method)| {
            matches!(method, "map" | "imap" | "imap_unordered")
                && (owner.ends_with("Executor()") || owner.ends_with("Pool()"))
        })
}

/// Decoder implemented by a library function.
pub(super) fn decoder(name: &str) -> Option<&'static str> {
    Some(match name {
        "base64.b64decode"
        | "base64.decodebytes"
        | "base64.decodestring"
        | "base64.urlsafe_b64decode"
        | "base64.standard_b64decode"
        | "binascii.a2b_base64" => "base64",
        "base64.b32decode" => "base32",
        "base64.b16decode" | "binascii.unhexlify" | "binascii.a2b_hex" | "bytes.fromhex"
        | "bytearray.fromhex" => "hex",
        "base64.b85decode" => "base85",
        "base64.a85decode" => "ascii85",
        "zlib.decompress" | "zlib.decompressobj().decompress" => "zlib",
        "gzip.decompress" => "gzip",
        "bz2.decompress" => "bzip2",
        "lzma.decompress" => "lzma",
        "urllib.parse.unquote" | "urllib.parse.unquote_plus" | "urllib.unquote" => "url",
        _ => return None,
    })
}

/// True for methods that wait: loops that contain one are not busy.
pub(super) fn waits(method: &str) -> bool {
    matches!(
        method,
        "sleep"
            | "accept"
            | "recv"
            | "recvfrom"
            | "get"
            | "input"
            | "wait"
            | "poll"
            | "select"
            | "read"
            | "readline"
            | "join"
            | "acquire"
            | "run_pending"
            | "getch"
            | "serve_forever"
            | "handle_request"
            | "waitpid"
            | "pause"
            | "next"
            | "update"
            | "recv_json"
            | "recv_string"
            | "waitKey"
            | "flip"
            | "popleft"
            | "pop"
            | "send"
            | "step"
            | "communicate"
            | "receive"
            | "consume"
            | "urlopen"
            | "exit"
            | "_exit"
            | "epoll"
            | "tick"
            | "pump"
    )
}
