//! Names that models and plain data need: everything else that a pickle imports is for a person to review.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// Patterns over whole names, `module.name`. A name is listed only if neither importing its module nor calling it
/// with any arguments executes something that the arguments contain, opens a file or reaches a network.
const NEEDED: &[&str] = &[
    // Python: containers, numbers, dates, paths, exceptions.
    r"builtins\.(list|tuple|dict|set|frozenset|bytearray|bytes|str|unicode|int|long|float|complex|bool|object|slice|range|xrange|Ellipsis|NotImplemented|NoneType)",
    r"builtins\.([A-Z]\w*(Error|Exception|Warning|Iteration|Exit|Interrupt)|(Base)?Exception(Group)?|Warning)",
    r"exceptions\.[A-Z]\w*",
    r"copyreg\.(_reconstructor|__newobj__|__newobj_ex__)",
    r"_?codecs\.encode",
    r"_?collections\.(OrderedDict|defaultdict|deque|Counter|ChainMap|UserDict|UserList|UserString)",
    r"datetime\.(datetime|date|time|timedelta|timezone|tzinfo)",
    r"zoneinfo\.ZoneInfo(\._unpickle)?|pytz\.(_UTC|_p|timezone)|dateutil\.tz\.tz\.(tzutc|tzlocal|tzfile|tzoffset)",
    r"_?decimal\.Decimal|fractions\.Fraction|uuid\.(UUID|SafeUUID)|time\.struct_time|os\.stat_result",
    r"array\.(array|_array_reconstructor)|types\.SimpleNamespace|argparse\.Namespace|re\._compile|random\.Random",
    r"pathlib(\._local)?\.(Pure)?(Posix|Windows)?Path|ipaddress\.IPv[46](Address|Network|Interface)",
    r"string\.Template|email\.message\.Message|http\.cookiejar\.(CookieJar|Cookie|DefaultCookiePolicy)",
    // numpy.
    r"numpy\.(ndarray|dtype|matrix|recarray|record|memmap|generic|number|integer|floating|bool_?|void|str_|bytes_|object_|datetime64|timedelta64|u?int(8|16|32|64|p|c)|u?(byte|short|long|longlong)|float(16|32|64|96|128)|complex(64|128|192|256)|half|single|double|longdouble)",
    r"numpy\._?core\.multiarray\.(_reconstruct|scalar)|numpy\._?core\.numeric\._frombuffer",
    r"numpy\._?core\.records\.(recarray|record)|numpy\.dtypes\.[A-Z]\w*DType|numpy\.ma(\.core)?\.(_mareconstruct|MaskedArray)",
    r"numpy\.random(\.\w+)*\.(__(randomstate|generator|bit_generator)_ctor|RandomState|Generator|MT19937|PCG64|PCG64DXSM|Philox|SFC64|SeedSequence)",
    r"numpy\.random\.bit_generator\.__pyx_unpickle_SeedSequence",
    // torch.
    r"torch\._utils\._rebuild_(tensor(_v2|_v3)?|parameter(_with_state)?|qtensor|sparse_tensor|sparse_csr_tensor|device_tensor_from_numpy|meta_tensor_no_storage|nested_tensor)",
    r"torch\._tensor\._rebuild_from_type_v2|torch\.serialization\._get_layout",
    r"torch\.(\w+Storage|storage\.(Typed|Untyped|_Typed|_Untyped)Storage|cuda\.\w+Storage)",
    r"torch\.(Size|device|Tensor|Generator|dtype|layout|nn\.(parameter\.)?(Parameter|Buffer))",
    r"torch\.(u?int|float|bfloat|complex|quint|qint)\d+(x\d+)?(_e\dm\d\w*)?|torch\.(bool|half|double|long|short|int|float|strided|sparse_coo)",
    r"torch\.nn\.modules\.\w+\.[A-Z]\w*|torch\.optim\.(\w+\.)?[A-Z]\w*",
    r"torch\.jit\._pickle\.(build_(int|double|bool|tensor)list|restore_type_tag)|__torch__\.[\w.]+",
    // Learning and tables.
    r"sklearn\.(\w+\.)+_?[A-Z]\w*",
    r"sklearn\.(_loss\._loss|neighbors\._\w+|metrics\._\w+)\.(__pyx_unpickle_\w+|newObj)",
    r"scipy\.sparse(\._?\w+)?\.(csr|csc|coo|bsr|dia|dok|lil)_(matrix|array)|scipy\.(interpolate|spatial|stats)(\._\w+)*\.[A-Z]\w*",
    r"pandas\.core\.(frame\.DataFrame|series\.Series|indexes\.(\w+\.)?(_new_\w*Index|[A-Z]\w*)|internals\.(\w+\.)?(new_block|_unpickle_block|[A-Z]\w*)|arrays\.([\w]+\.)*[A-Z]\w*|dtypes\.dtypes\.[A-Z]\w*|flags\.Flags)",
    r"pandas(\.indexes)?\.(DataFrame|Series|Index|base\._new_Index)",
    r"pandas\._libs\.(internals\._unpickle_block|arrays\.__pyx_unpickle_\w+|tslibs\.\w+\.(_unpickle_\w+|__pyx_unpickle_\w+|[A-Z]\w*)|missing\.NAType|interval\.Interval)",
    r"joblib\.numpy_pickle\.(NumpyArrayWrapper|NDArrayWrapper|ZNDArrayWrapper)",
    r"xgboost\.(core\.(Booster|DMatrix)|sklearn\.XGB\w+)|lightgbm\.(basic\.Booster|sklearn\.LGBM\w+)|catboost\.core\.CatBoost\w*",
    r"docutils\.(nodes|statemachine|utils)\.[A-Za-z]\w*|sphinx\.addnodes\.[A-Za-z]\w*|numpy\.matrixlib\.defmatrix\.matrix",
    r"networkx\.classes\.\w+\.\w*Graph|nltk\.(tokenize\.punkt|probability|tag\.\w+)\.[A-Z]\w*",
];

static LISTED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!("^(?:{})$", NEEDED.join("|"))).ok());

/// True for a name that models or plain data need.
pub(super) fn is_needed(name: &str) -> bool {
    // A list that does not compile, which the tests exclude, lists nothing.
    LISTED.as_ref().is_some_and(|listed| listed.is_match(name))
}

/// True for functions whose result is something that their arguments name.
pub(super) fn is_getter(name: &str) -> bool {
    matches!(
        name,
        "builtins.getattr"
            | "operator.attrgetter"
            | "_operator.attrgetter"
            | "operator.methodcaller"
            | "_operator.methodcaller"
            | "inspect.getattr_static"
            | "pkgutil.resolve_name"
            | "pydoc.locate"
    ) || name.ends_with(".__getattribute__")
        || name.ends_with(".__getattr__")
        || name.ends_with("__dict__.__getitem__")
}

/// Text of an opcode that allows escapes (`STRING`, `UNICODE`), as its loader decodes it. Names never contain a
/// backslash, so it does not matter which opcode a name comes from.
pub(super) fn plain(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'\\') {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let (begin, size, radix) = match (text[at], text.get(at + 1)) {
            (b'\\', Some(b'x')) => (at + 2, 2, 16),
            (b'\\', Some(b'u')) => (at + 2, 4, 16),
            (b'\\', Some(b'U')) => (at + 2, 8, 16),
            (b'\\', Some(b'0'..=b'7')) => {
                let digits = text[at + 1..].iter().take(3).take_while(|b| matches!(b, b'0'..=b'7'));
                (at + 1, digits.count(), 8)
            }
            _ => (at, 0, 0),
        };
        let digits = text.get(begin..begin + size).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.filter(|d| !d.is_empty()).and_then(|d| u32::from_str_radix(d, radix.max(2)).ok());
        if let Some(c) = code.filter(|_| size > 0).and_then(char::from_u32) {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            at = begin + size;
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_names_are_exact() {
        for name in [
            "collections.OrderedDict",
            "builtins.ValueError",
            "numpy.core.multiarray._reconstruct",
            "numpy._core.multiarray.scalar",
            "torch._utils._rebuild_tensor_v2",
            "torch.FloatStorage",
            "torch.bfloat16",
            "torch.float8_e4m3fn",
            "torch.nn.modules.linear.Linear",
            "sklearn.tree._tree.Tree",
            "sklearn.linear_model._logistic.LogisticRegression",
            "pandas.core.frame.DataFrame",
            "pandas._libs.internals._unpickle_block",
            "datetime.datetime",
            "__torch__.model.Net",
        ] {
            assert!(is_needed(name), "{name}");
        }
        for name in [
            "os.system",
            "collections.OrderedDict.fromkeys",
            "builtins.eval",
            "builtins.getattr",
            "builtins.type",
            "torch.load",
            "torch.hub.load",
            "torch.storage._load_from_bytes",
            "sklearn.os",
            "sklearn.utils.os.system",
            "numpy.f2py.crackfortran.getlincoef",
            "numpy.load",
            "pandas.eval",
            "pandas.io.pickle.read_pickle",
            "joblib.load",
            "__main__.Model",
            "xcollections.OrderedDict",
            "collections.OrderedDictx",
        ] {
            assert!(!is_needed(name), "{name}");
        }
    }

    #[test]
    fn escapes_in_names_are_decoded() {
        for (text, wanted) in [
            ("os", "os"),
            (r"\u006fs", "os"),
            (r"\x6f\x73", "os"),
            (r"\157\163", "os"),
            (r"\U0000006fs", "os"),
            (r"a\zb", r"a\zb"),
            (r"\x", r"\x"),
            (r"\u00", r"\u00"),
        ] {
            assert_eq!(plain(text.as_bytes()), wanted.as_bytes(), "{text}");
        }
    }
}
