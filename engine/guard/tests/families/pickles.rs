//! Pickles that are built opcode by opcode: callables of every kind, written in every way, whole and broken.

use hotcell_guard::{Artifact, Limits, Pack, Verdict, scan};
use std::io::Write;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Callables that execute something, or lead to it.
const GADGETS: &[&str] = &[
    "os system",
    "posix system",
    "nt system",
    "subprocess Popen",
    "builtins eval",
    "__builtin__ exec",
    "builtins __import__",
    "runpy _run_code",
    "pty spawn",
    "importlib import_module",
    "webbrowser open",
    "operator attrgetter",
    "operator methodcaller",
    "types FunctionType",
    "types CodeType",
    "functools partial",
    "asyncio.subprocess create_subprocess_shell",
    "pip main",
    "timeit timeit",
    "bdb Bdb",
    "pdb run",
    "code InteractiveInterpreter",
    "ctypes CDLL",
    "socket create_connection",
    "shutil rmtree",
    "urllib.request urlopen",
    "requests.api get",
    "numpy.testing._private.utils runstring",
    "torch.serialization load",
    "torch.hub load",
    "idlelib.pyshell ModifiedInterpreter",
    "_osx_support _read_output",
    "logging FileHandler",
    "pickle loads",
    "_pickle loads",
    "_io FileIO",
    "uuid _get_command_stdout",
];
/// Callables that nothing is known about.
const UNLISTED: &[&str] = &[
    "__main__ Model",
    "app.models User",
    "builtins getattr",
    "builtins map",
    "torch.storage _load_from_bytes",
    "sklearn.utils helper",
    "collections namedtuple",
    "antigravity x",
];
/// Callables that models and plain data need.
const NEEDED: &[&str] = &[
    "collections OrderedDict",
    "builtins set",
    "__builtin__ object",
    "copy_reg _reconstructor",
    "_codecs encode",
    "datetime datetime",
    "decimal Decimal",
    "pathlib PosixPath",
    "numpy.core.multiarray _reconstruct",
    "numpy._core.multiarray scalar",
    "numpy dtype",
    "torch._utils _rebuild_tensor_v2",
    "torch FloatStorage",
    "sklearn.tree._tree Tree",
    "sklearn.linear_model._base LinearRegression",
    "pandas.core.frame DataFrame",
    "pandas._libs.internals _unpickle_block",
];

fn sized(opcode: u8, text: &str) -> Vec<u8> {
    let mut out = vec![opcode];
    let size = text.len();
    match opcode {
        0x8c => out.push(u8::try_from(size).unwrap_or(0)),
        _ => out.extend(u32::try_from(size).unwrap_or(0).to_le_bytes()),
    }
    out.extend(text.as_bytes());
    out
}

fn escaped(text: &str) -> String {
    text.chars().map(|c| format!("\\u{:04x}", c as u32)).collect()
}

/// Ways to push a callable.
const PUSHES: usize = 7;

fn push(way: usize, module: &str, name: &str) -> Vec<u8> {
    match way {
        0 => format!("c{module}\n{name}\n").into_bytes(),
        1 => [sized(0x8c, module), sized(0x8c, name), vec![0x93]].concat(),
        2 => [sized(b'X', module), sized(b'X', name), vec![0x93]].concat(),
        3 => format!("V{}\nV{}\n", escaped(module), escaped(name)).bytes().chain([0x93]).collect(),
        4 => format!("S'{module}'\nS\"{name}\"\n").bytes().chain([0x93]).collect(),
        // Through the memo, with other values between.
        5 => [sized(0x8c, name), b"q\x07".to_vec(), sized(0x8c, module), b"q\x09N00h\x09h\x07\x93".to_vec()]
            .concat(),
        // Memoised by position, then doubled.
        _ => {
            [sized(0x8c, module), vec![0x94], sized(0x8c, name), vec![0x94, b'0', b'2', b'0', b'h', 1, 0x93]]
                .concat()
        }
    }
}

/// Ways to call what is on the stack.
const CALLS: usize = 6;

fn call(way: usize, module: &str, name: &str, pushed: &[u8]) -> Vec<u8> {
    let argument = b"Vid\n";
    match way {
        0 => [pushed, argument, b"\x85R"].concat(),
        1 => [pushed, b"(", argument, b"tR"].concat(),
        2 => [b"(", pushed, argument, b"o"].concat(),
        3 => [pushed, argument, b"\x85\x81"].concat(),
        4 => [pushed, argument, b"\x85}\x92"].concat(),
        _ => [b"(", &argument[..], format!("i{module}\n{name}\n").as_bytes()].concat(),
    }
}

/// Beginnings that a loader accepts.
const STARTS: &[&[u8]] = &[
    b"\x80\x04\x95\0\0\0\0\0\0\0\0",
    b"\x80\x02",
    b"\x80\x00",
    b"\x80\x01",
    b"",
    b"N0",
    b"]0}0",
    b"I1\n0K\x010",
    b"\x80\x02N0\x80\x05",
];
/// Ends: whole, and with a fault after the call.
const ENDS: &[&[u8]] = &[b".", b"0N.", b"\xff.", b"", b"RRRR.", b"\x80", b"h\x63.", b".trailing data"];

fn pickle(start: &[u8], body: &[u8], end: &[u8]) -> Vec<u8> {
    [start, body, end].concat()
}

fn verdict(pack: &Pack, name: &str, bytes: Vec<u8>) -> Verdict {
    scan(pack, &Limits::default(), &Artifact::new(name, bytes)).verdict
}

fn simple(callable: &str) -> Vec<u8> {
    let (module, name) = callable.split_once(' ').unwrap_or((callable, ""));
    call(0, module, name, &push(0, module, name))
}

#[test]
fn every_way_to_write_a_gadget_is_refused() -> Outcome {
    let pack = Pack::builtin()?;
    let mut passed = Vec::new();
    for way in 0..PUSHES {
        for called in 0..CALLS {
            for (start, head) in STARTS.iter().enumerate() {
                for (end, tail) in ENDS.iter().enumerate() {
                    // A memo by position depends on what came before.
                    if way == 6 && !matches!(start, 0..=4) {
                        continue;
                    }
                    let body = call(called, "os", "system", &push(way, "os", "system"));
                    let found = verdict(&pack, "x.dat", pickle(head, &body, tail));
                    if found != Verdict::Quarantine {
                        passed
                            .push(format!("push {way}, call {called}, start {start}, end {end}: {found:?}"));
                    }
                }
            }
        }
    }
    assert!(passed.is_empty(), "{} {:#?}", passed.len(), &passed[..passed.len().min(20)]);
    Ok(())
}

#[test]
fn callables_are_allowed_by_list() -> Outcome {
    let pack = Pack::builtin()?;
    for callable in GADGETS {
        let found = verdict(&pack, "x", pickle(STARTS[0], &simple(callable), b"."));
        assert_eq!(found, Verdict::Quarantine, "{callable}");
    }
    for callable in UNLISTED {
        for end in ENDS {
            let found = verdict(&pack, "x.pkl", pickle(STARTS[1], &simple(callable), end));
            assert!(found > Verdict::Allow, "{callable} {end:?}");
        }
        assert_eq!(
            verdict(&pack, "x", pickle(STARTS[1], &simple(callable), b".")),
            Verdict::Review,
            "{callable}"
        );
        // A name that is only imported, or set as a value, counts too.
        let (module, name) = callable.split_once(' ').ok_or("no name")?;
        let found = verdict(&pack, "x", pickle(STARTS[1], &push(0, module, name), b"."));
        assert_eq!(found, Verdict::Review, "{callable}");
    }
    for callable in NEEDED {
        let found = verdict(&pack, "model.pkl", pickle(STARTS[1], &simple(callable), b"."));
        assert_eq!(found, Verdict::Allow, "{callable}");
        let broken = verdict(&pack, "model.pkl", pickle(STARTS[1], &simple(callable), b"\xff."));
        assert_eq!(broken, Verdict::Incomplete, "{callable}");
    }
    Ok(())
}

#[test]
fn pickles_inside_values_are_read() -> Outcome {
    let pack = Pack::builtin()?;
    let gadget = pickle(b"\x80\x04", &simple("os system"), b".");
    let data = pickle(b"\x80\x04", b"}\x8c\x01aK\x01s", b".");
    let text = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let bytes = |inner: &[u8]| [&[b'C', u8::try_from(inner.len()).unwrap_or(0)], inner].concat();
    for (what, value, wanted) in [
        ("bytes", bytes(&gadget), Verdict::Quarantine),
        ("hexadecimal", sized(b'X', &text(&gadget)), Verdict::Quarantine),
        // `\x80\x04cos\nsystem\nVid\n\x85R.`
        ("base64", sized(b'X', "gARjb3MKc3lzdGVtClZpZAqFUi4="), Verdict::Quarantine),
        ("bytes in bytes", bytes(&pickle(b"\x80\x04", &bytes(&gadget), b".")), Verdict::Quarantine),
        ("data", bytes(&data), Verdict::Allow),
        ("bytes that only begin like one", bytes(b"\x80\x04\x01\x02\x03\x04"), Verdict::Allow),
    ] {
        let outer = pickle(b"\x80\x04", &[b"}\x8c\x01k", &value[..], b"s"].concat(), b".");
        assert_eq!(verdict(&pack, "model.pkl", outer), wanted, "{what}");
    }
    Ok(())
}

#[test]
fn chains_that_hide_a_callable_are_refused() -> Outcome {
    let pack = Pack::builtin()?;
    let looked_up = b"cbuiltins\ngetattr\n(ccollections\nOrderedDict\nVfromkeys\ntR(Vid\ntR";
    let by_path =
        [sized(0x8c, "collections"), sized(0x8c, "OrderedDict.__init__.__globals__"), vec![0x93]].concat();
    let hidden: &[(&str, Vec<u8>)] = &[
        ("a getter's result is called", looked_up.to_vec()),
        ("a getter of a module's part", b"coperator\nattrgetter\n(Vsystem\ntR(Vos\ntR".to_vec()),
        ("a partial application", b"cfunctools\npartial\n(ccollections\nOrderedDict\ntR)R".to_vec()),
    ];
    for (what, body) in hidden {
        assert_eq!(verdict(&pack, "x", pickle(STARTS[1], body, b".")), Verdict::Quarantine, "{what}");
    }
    for (what, body) in [
        ("a path of attributes", [by_path, b")R".to_vec()].concat()),
        ("a result is called", b"ccollections\nOrderedDict\n)R)R".to_vec()),
        ("a persistent object is called", b"Px\n(Vid\ntR".to_vec()),
        ("a registered object is called", b"\x82\x01)R".to_vec()),
        ("a name is assembled", b"ccollections\nOrderedDict\n)RVx\n\x93)R".to_vec()),
    ] {
        assert!(verdict(&pack, "x.pkl", pickle(STARTS[1], &body, b".")) > Verdict::Allow, "{what}");
    }
    Ok(())
}

fn numpy(header: &str, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(header.len()).unwrap_or(0).to_le_bytes();
    [&b"\x93NUMPY\x01\x00"[..], &size, header.as_bytes(), body].concat()
}

fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes)?;
    out.finish()
}

fn zip(name: &str, bytes: &[u8]) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut out = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    out.start_file(name, zip::write::SimpleFileOptions::default())?;
    out.write_all(bytes)?;
    Ok(out.finish()?.into_inner())
}

#[test]
fn gadgets_are_found_in_every_container() -> Outcome {
    let pack = Pack::builtin()?;
    let own = pickle(b"\x80\x02", &simple("os system"), b".");
    let header = |descr: &str| format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}\n");
    let mut containers = vec![
        ("model.pt", zip("archive/data.pkl", &own)?),
        ("model.pth", zip("m/data.pkl", &own)?),
        ("model.ckpt", own.clone()),
        ("pytorch_model.bin", own.clone()),
        ("model.joblib", gzip(&own)?),
        ("data", own.clone()),
        ("data.npz", zip("a.npy", &numpy(&header("'|O'"), &own))?),
        ("magic.pt", [&b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."[..], &own].concat()),
    ];
    for descr in [
        "'|O'",
        "'O'",
        "\"O\"",
        "'object'",
        "'i4,O'",
        "[('a', '|O')]",
        "[('a','i4'),('b','object')]",
        "'\\x4f'",
    ] {
        containers.push(("x.npy", numpy(&header(descr), &own)));
    }
    for (name, bytes) in containers {
        assert_eq!(verdict(&pack, name, bytes), Verdict::Quarantine, "{name}");
    }
    for descr in ["'<f8'", "[('Open', '<f8')]"] {
        assert_eq!(verdict(&pack, "x.npy", numpy(&header(descr), &[0; 8])), Verdict::Allow, "{descr}");
    }
    Ok(())
}
