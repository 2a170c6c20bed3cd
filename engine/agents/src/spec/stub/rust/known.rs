//! Types of results for which a stub has values, told from their text. The compiler has the last word: this is what the plan's evidence says.

use std::collections::BTreeMap;

use super::angles;
use super::types::{Type, listed};
use crate::spec::stub::blank::{skip, word};

/// Types with values in the helper.
const PLAIN: [&str; 25] = [
    "i8",
    "i16",
    "i32",
    "i64",
    "i128",
    "isize",
    "u8",
    "u16",
    "u32",
    "u64",
    "u128",
    "usize",
    "f32",
    "f64",
    "bool",
    "char",
    "str",
    "String",
    "PathBuf",
    "OsString",
    "Ordering",
    "Duration",
    "ParseIntError",
    "ParseFloatError",
    "ErrorKind",
];
/// Types that hold nothing in one stub, where the helper has a value of what they hold; else their default in both.
const MANY: [&str; 8] =
    ["Option", "Vec", "VecDeque", "BinaryHeap", "HashMap", "HashSet", "BTreeMap", "BTreeSet"];
/// Types with a value where what is in them has one.
const AROUND: [&str; 7] = ["Box", "Rc", "Arc", "Cell", "RefCell", "Mutex", "RwLock"];
/// Other types with a default.
const DEFAULT: [&str; 6] = ["LinkedList", "CString", "PhantomData", "Weak", "AtomicUsize", "AtomicBool"];

/// Types of the plan within each other of which the helper makes values.
const DEPTH: u32 = 5;
/// Maximum number of types that are looked at for one result.
const MAX_STEPS: usize = 2_000;
/// Maximum number of types around one another.
const MAX_NEST: usize = 64;
/// Maximum length of a type with its arguments in place of parameters, in bytes.
const MAX_KIND_BYTES: usize = 4096;

/// Look at the types of one result. Types can refer to each other in more ways than can be followed.
#[derive(Default)]
struct Walk {
    /// Names of the aliases around.
    aliases: Vec<String>,
    /// Number of the plan's types around.
    depth: u32,
    nest: usize,
    steps: usize,
    /// A bound was reached: nothing is known.
    is_over: bool,
    /// Values by type, meaning of `Self` and place.
    known: BTreeMap<(String, String, u32, Vec<String>), Option<bool>>,
}

impl Walk {
    /// Counts a type; false at the bound.
    fn steps_on(&mut self) -> bool {
        self.is_over |= self.steps >= MAX_STEPS || self.nest >= MAX_NEST;
        self.steps += usize::from(!self.is_over);
        !self.is_over
    }
}

/// A type by another name.
#[derive(Clone)]
struct Alias {
    params: Vec<String>,
    kind: String,
}

/// Types of a plan.
pub(super) struct Known<'a> {
    types: BTreeMap<&'a str, Vec<&'a Type>>,
    aliases: BTreeMap<String, Alias>,
}

impl<'a> Known<'a> {
    /// Collects the types and the aliases in code.
    pub fn of(types: impl Iterator<Item = &'a Type>, codes: impl Iterator<Item = &'a str>) -> Self {
        let mut all: BTreeMap<&str, Vec<&Type>> = BTreeMap::new();
        for of in types {
            all.entry(&of.name).or_default().push(of);
        }
        Self { types: all, aliases: codes.flat_map(aliases).collect() }
    }

    /// Tells if a stub has a value of a type; `own` is the meaning of `Self`.
    pub fn makes(&self, kind: &str, own: &str) -> bool {
        let mut walk = Walk::default();
        self.made(kind, own, &mut walk) && !walk.is_over
    }

    fn made(&self, kind: &str, own: &str, walk: &mut Walk) -> bool {
        if !walk.steps_on() {
            return false;
        }
        let value = self.value(kind, own, walk);
        value.unwrap_or_else(|| self.is_built(kind, own, walk) || self.has_default(kind, MAX_NEST))
    }

    /// Tells if a type of the plan has a value whatever its parameters are.
    fn is_built(&self, kind: &str, own: &str, walk: &mut Walk) -> bool {
        let Some((path, args)) = path(kind) else { return false };
        let name = path.rsplit("::").next().unwrap_or(path);
        let name = if name == "Self" { own } else { name };
        let Some(types) = self.types.get(name).filter(|_| walk.depth < DEPTH) else {
            return false;
        };
        walk.depth += 1;
        let made = types.iter().all(|of| !of.made().is_empty() && self.has_shape(of, &args, walk));
        walk.depth -= 1;
        made
    }

    /// Tells if a variant has values of all its fields.
    fn has_shape(&self, of: &Type, args: &[&str], walk: &mut Walk) -> bool {
        let params: Vec<&str> = of.params().map(|param| &*param.name).collect();
        let defaults = of.params().skip(args.len()).filter(|param| !param.default.is_empty());
        let defaults: Vec<String> = defaults.map(|param| replaced(&param.default, &params, args)).collect();
        let all: Vec<&str> = args.iter().copied().chain(defaults.iter().map(String::as_str)).collect();
        of.shapes.iter().any(|shape| {
            let mut kinds = shape.kinds().into_iter().map(|kind| replaced(kind, &params, &all));
            kinds.all(|kind| self.made(&kind, &of.name, walk))
        })
    }

    /// Tells if there is a value by the helper's trait; `None` for a type without the trait.
    fn value(&self, kind: &str, own: &str, walk: &mut Walk) -> Option<bool> {
        let kind = kind.trim();
        let key = (kind.to_owned(), own.to_owned(), walk.depth, walk.aliases.clone());
        if let Some(known) = walk.known.get(&key) {
            return *known;
        }
        walk.is_over |= kind.len() > MAX_KIND_BYTES;
        if !walk.steps_on() {
            return None;
        }
        walk.nest += 1;
        let value = self.looked_at(kind, own, walk);
        walk.nest -= 1;
        walk.known.insert(key, value);
        value
    }

    fn looked_at(&self, kind: &str, own: &str, walk: &mut Walk) -> Option<bool> {
        if let Some(rest) = referred(kind) {
            return match slice(rest) {
                Some(of) => self.value(of, own, walk).map(|_| true),
                None => self.value(rest, own, walk),
            };
        }
        if let Some(inner) = kind.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            return self.all(&listed(inner), own, walk);
        }
        if let Some((of, _)) = array(kind) {
            return self.value(of, own, walk);
        }
        let (path, args) = path(kind)?;
        let name = path.rsplit("::").next().unwrap_or(path);
        let name = if name == "Self" { own } else { name };
        // An alias may have the name of its meaning.
        let is_within = walk.aliases.iter().any(|other| other == name);
        let is_foreign = is_foreign(path);
        if let Some(types) = self.types.get(name).filter(|_| !is_foreign) {
            if types.iter().any(|of| of.made().is_empty()) {
                return None;
            }
            for of in types {
                let params: Vec<&str> = of.params().map(|param| &*param.name).collect();
                for (at, param) in of.params().enumerate().filter(|(_, param)| param.is_type()) {
                    let default = if param.default.is_empty() { &param.name } else { &param.default };
                    let arg = args.get(at).map(|arg| (*arg).to_owned());
                    let arg = arg.unwrap_or_else(|| replaced(default, &params, &args));
                    self.value(&arg, own, walk)?;
                }
            }
            if walk.depth >= DEPTH {
                return Some(false);
            }
            walk.depth += 1;
            let made = types.iter().all(|of| self.has_shape(of, &args, walk));
            walk.depth -= 1;
            return Some(made);
        }
        if let Some(alias) = self.aliases.get(name).filter(|_| !is_within && !is_foreign) {
            walk.aliases.push(name.to_owned());
            let params: Vec<&str> = alias.params.iter().map(String::as_str).collect();
            let made = self.value(&replaced(&alias.kind, &params, &args), own, walk);
            walk.aliases.pop();
            return made;
        }
        let last = args.last().copied().unwrap_or_default();
        match name {
            "Result" if args.is_empty() => Some(true),
            "Result" if args.len() == 1 => self.value(last, own, walk).map(|_| true),
            "Result" => {
                let each = args.iter().map(|of| self.value(of, own, walk)).collect::<Option<Vec<_>>>()?;
                Some(each.contains(&true))
            }
            "Error" => (path.ends_with("io::Error") || path.ends_with("fmt::Error")).then_some(true),
            "Cow" => (last == "str").then_some(true),
            "Box" if is_error(last) => Some(true),
            "Box" if slice(last).is_some() => self.value(slice(last)?, own, walk).map(|_| true),
            name if AROUND.contains(&name) => self.value(last, own, walk),
            name if MANY.contains(&name) => self.all(&args, own, walk).map(|_| true),
            name => PLAIN.contains(&name).then_some(true),
        }
    }

    fn all(&self, kinds: &[&str], own: &str, walk: &mut Walk) -> Option<bool> {
        // The helper has tuples of six.
        let each = kinds.iter().map(|of| self.value(of, own, walk)).collect::<Option<Vec<_>>>()?;
        (each.len() <= 6).then(|| !each.contains(&false))
    }

    fn has_default(&self, kind: &str, room: usize) -> bool {
        let Some(room) = room.checked_sub(1) else { return false };
        let kind = kind.trim();
        if let Some(rest) = referred(kind) {
            return rest == "str" || slice(rest).is_some();
        }
        if let Some(inner) = kind.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            return listed(inner).into_iter().all(|of| self.has_default(of, room));
        }
        if let Some((of, _)) = array(kind) {
            return self.has_default(of, room);
        }
        let Some((path, args)) = path(kind) else { return false };
        let name = path.rsplit("::").next().unwrap_or(path);
        if self.types.contains_key(name) || self.aliases.contains_key(name) {
            return false;
        }
        MANY.contains(&name)
            || DEFAULT.contains(&name)
            || PLAIN.contains(&name)
            || (AROUND.contains(&name) && args.first().is_some_and(|of| self.has_default(of, room)))
    }
}

/// A type with arguments in place of parameters.
fn replaced(kind: &str, params: &[&str], args: &[&str]) -> String {
    let (mut out, mut at) = (String::new(), 0);
    // One that is too long is refused where it is looked at.
    while at < kind.len() && out.len() <= MAX_KIND_BYTES {
        let name = word(kind, at);
        let place = params.iter().position(|param| *param == name);
        match (place.and_then(|place| args.get(place)), kind[at..].chars().next()) {
            (Some(arg), _) if !name.is_empty() => out.push_str(arg),
            (_, Some(other)) if name.is_empty() => out.push(other),
            _ => out.push_str(name),
        }
        at += kind[at..].chars().next().map_or(1, char::len_utf8).max(name.len());
    }
    out
}

/// Tells if a path leads to the standard library, whatever the plan's own names are.
fn is_foreign(path: &str) -> bool {
    path.split_once("::").is_some_and(|(first, _)| matches!(first, "std" | "core" | "alloc" | "fmt" | "io"))
}

/// The type behind a reference.
fn referred(kind: &str) -> Option<&str> {
    let rest = kind.strip_prefix('&')?.trim_start();
    let rest = match rest.strip_prefix('\'') {
        Some(lifetime) => lifetime[word(lifetime, 0).len()..].trim_start(),
        None => rest,
    };
    Some(rest.strip_prefix("mut ").unwrap_or(rest).trim_start())
}

/// The type within a slice.
fn slice(kind: &str) -> Option<&str> {
    let inner = kind.strip_prefix('[')?.strip_suffix(']')?;
    (!inner.contains(';')).then_some(inner)
}

/// Type and length of an array.
fn array(kind: &str) -> Option<(&str, &str)> {
    kind.strip_prefix('[')?.strip_suffix(']')?.rsplit_once(';')
}

/// A path and its arguments; `None` for a type of another form.
fn path(kind: &str) -> Option<(&str, Vec<&str>)> {
    let (path, args) = match kind.split_once('<') {
        Some((path, args)) => (path.trim_end().trim_end_matches("::"), args.strip_suffix('>')?),
        None => (kind, ""),
    };
    let is_path = !path.is_empty() && path.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | ':'));
    is_path.then(|| (path, listed(args)))
}

/// Tells if a type is that of any error.
fn is_error(kind: &str) -> bool {
    kind.strip_prefix("dyn ").is_some_and(|of| {
        let first = of.split('+').next().unwrap_or_default().trim();
        first.rsplit("::").next() == Some("Error")
    })
}

/// Names after `type`, with their meaning.
fn aliases(code: &str) -> Vec<(String, Alias)> {
    let of = |(at, found): (usize, &str)| {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            return None;
        }
        let from = skip(code, at + found.len(), true);
        let name = word(code, from);
        let mut after = skip(code, from + name.len(), true);
        let mut params = Vec::new();
        if code[after..].starts_with('<') {
            let end = angles(code, after)?;
            params = listed(&code[after + 1..end - 1]).into_iter().map(|of| word(of, 0).to_owned()).collect();
            after = end;
        }
        let rest = &code[after..];
        let (_, kind) = rest[..rest.find(';')?].split_once('=')?;
        (!name.is_empty()).then(|| (name.to_owned(), Alias { params, kind: kind.trim().to_owned() }))
    };
    code.match_indices("type ").filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{VALUES, unmade};
    use super::*;
    use crate::spec::plan::Planned;

    fn of(interface: &str) -> Vec<String> {
        let file = Planned {
            path: "src/lib.rs".to_owned(),
            purpose: "x".to_owned(),
            interface: interface.to_owned(),
        };
        unmade(&[&file])
    }

    #[test]
    fn results_without_a_value_are_named() {
        for (result, made) in [
            ("i64", true),
            ("", true),
            ("()", true),
            ("&'a str", true),
            ("&[Foreign]", true),
            ("&mut Point", true),
            ("Option<Foreign>", true),
            ("Vec<Foreign>", true),
            ("(i64, Point)", true),
            ("(i64, Foreign)", false),
            ("[Point; 3]", true),
            ("Point", true),
            ("Box<Shape>", true),
            ("Result<Foreign, String>", false),
            ("Result<Point, Held>", true),
            ("Result<Held, Held>", false),
            ("Result<Foreign, Foreign>", false),
            ("std::io::Result<()>", true),
            ("std::io::Error", true),
            ("fmt::Result", true),
            ("Box<dyn Error>", true),
            ("Box<dyn std::error::Error + Send>", true),
            ("Box<dyn Area>", false),
            ("Arc<str>", true),
            ("Rc<RefCell<Point>>", true),
            ("impl Iterator<Item = Foreign>", true),
            ("impl Fn(i64) -> i64", false),
            ("fn(i64) -> i64", false),
            ("std::fs::File", false),
            ("crate::Shape", true),
            ("List", true),
            ("Endless", false),
            ("Held", false),
            ("Sized", false),
            ("Alias", true),
            ("Own<i64>", true),
            ("Own<Foreign>", false),
            ("Two<Point>", true),
            ("Two<Foreign>", false),
            ("Two<T>", false),
            ("Two<List, 3>", true),
            ("Half<i64>", true),
            ("HashMap<String, Foreign>", true),
            ("Result<HashMap<String, Foreign>, String>", false),
            ("Cow<'static, str>", true),
            ("&Held", false),
            ("Foreign", false),
            ("T", false),
            ("<T as Area>::Out", false),
        ] {
            let rest = "pub struct Point { x: i64, y: i64 }\nenum Shape { At(Point), Held(Held) }\nenum List { More(i64, Box<List>), End }\n\
                struct Endless { next: Box<Endless> }\nstruct Held { f: std::fs::File }\nstruct Sized { t: [u8] }\ntype Alias = Vec<Point>;\nstruct Half<A, B = A>(A, B);\nstruct Two<T, const N: usize = 2>([T; N]);\n\
                type Own<T> = std::result::Result<T, Shape>;\n";
            let arrow = if result.is_empty() { String::new() } else { format!(" -> {result}") };
            let said = of(&format!("{rest}pub fn f(){arrow};"));
            assert_eq!(said.is_empty(), made, "{result}: {said:?}");
            assert!(made || said == [format!("f -> {result}")], "{said:?}");
        }
        for (given, want) in [
            (
                "pub struct S { x: i64 }\nimpl S { pub fn new() -> Self; pub const fn one() -> Self; fn at(&self) -> &Self; }",
                &["S::one -> Self"][..],
            ),
            (
                "struct W<T>(T);\nimpl<T> fmt::Display for W<T> { fn fmt(&self) -> fmt::Result; fn get(self) -> T; }\ntype Result<T> = std::result::Result<T, W<i64>>;",
                &["W::get -> T"],
            ),
            ("trait A { fn new() -> Self; fn two(&self) -> Foreign { todo!() } }", &["two -> Foreign"]),
            (
                "impl Iterator for S { type Item = i64; fn next(&mut self) -> Option<Self::Item>; fn one(&self) -> Self::Item; }",
                &[],
            ),
            (
                "struct Stack<T> { items: Vec<T> }\nimpl<T> Stack<T> { fn new() -> Self; fn top(&self) -> Held<T>; }\nstruct Held<T>(T);",
                &["Stack::top -> Held<T>"],
            ),
            ("fn main() -> Foreign;\nfn never() -> !;", &[]),
        ] {
            assert_eq!(of(given), want, "{given}");
        }
    }

    #[test]
    fn types_are_followed_as_deep_as_the_helper_does() {
        assert!(VALUES.contains(&format!("DEPTH: u32 = {DEPTH};")));
        for (number, made) in [(1, true), (5, true), (6, false)] {
            let types: String = (1..number).map(|at| format!("struct A{at}(A{});", at + 1)).collect();
            let said = of(&format!("{types} struct A{number}(i64); fn f() -> A1;"));
            assert_eq!(said.is_empty(), made, "{number}: {said:?}");
        }
    }

    #[test]
    fn no_types_are_followed_without_end() {
        let many = |of: &dyn Fn(usize) -> String| (0..40).map(of).collect::<String>();
        let wide = |at: usize| format!("struct A{at}({});", format!("A{}, ", at + 1).repeat(30));
        for text in [
            many(&|at| format!("struct A{at} {{ a: A{}, b: A{} }}", at + 1, at + 1)),
            many(&|at| format!("struct A{at}<T> {{ a: A{}<(T, T)>, b: A{}<(T,)> }}", at + 1, at + 1)),
            many(&|at| format!("type A{at}<T> = A{}<(T, T)>;", at + 1)),
            many(&|at| format!("type A{at}<T> = Result<A{}<T>, A{}<(T,)>>;", at + 1, at + 1)),
            many(&wide),
        ] {
            let code = [text.as_str()];
            let items = super::super::items(&text);
            let types = items.iter().filter_map(|item| match item {
                super::super::Item::Type(of, _) => Some(of),
                super::super::Item::Function { .. } => None,
            });
            let known = Known::of(types, code.into_iter());
            let refs = "&".repeat(3000);
            for kind in ["A0", "A0<i64>", "Vec<A0<i64>>", "(Foreign, A0)", &refs] {
                let mut walk = Walk::default();
                let made = known.made(kind, "", &mut walk) && !walk.is_over;
                assert!(walk.steps <= MAX_STEPS && walk.nest == 0 && walk.depth == 0, "{kind}");
                assert!(!made || kind.starts_with("Vec"), "{kind} {text}");
                assert!(walk.known.keys().all(|(kind, ..)| kind.len() <= MAX_KIND_BYTES), "{kind}");
            }
        }
    }
}
