//! Types of functions, as many as there are numbers, each in a component of its own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use boon::{Compiler, SchemaIndex, Schemas};
use hotcell_tools::component::describe;
use hotcell_tools::mapping::Signature;
use serde_json::Value;
use wasmtime::Engine;
use wasmtime::component::Component;
use wit_component::{ComponentEncoder, StringEncoding, dummy_module, embed_component_metadata};
use wit_parser::{ManglingAndAbi, Resolve};

/// Maximum number of types that are kept.
const MAX_TYPES: usize = 400;
/// Maximum depth of their nesting.
const MAX_TYPE_DEPTH: u32 = 4;

/// Functions of one type: `echo: func(p: T) -> tuple<T>` and `plain: func() -> T`.
pub struct Types {
    /// Takes a value of the type and returns it.
    pub echo: Signature,
    /// Returns a value of the type.
    pub plain: Signature,
    /// Judge by the published schema of the arguments of `echo`.
    pub input: Judge,
    /// Judge by the schema of the answer of `echo`.
    pub output: Judge,
    /// Judge by the schema of the answer of `plain`.
    pub alone: Judge,
}

/// A checker of schemas that is independent of hotcell's code.
pub struct Judge(Schemas, SchemaIndex);

impl Judge {
    fn new(schema: Value) -> Self {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.set_default_draft(boon::Draft::V2020_12);
        compiler.add_resource("schema.json", schema).expect("a schema");
        let index = compiler.compile("schema.json", &mut schemas).expect("a schema that is one");
        Self(schemas, index)
    }

    /// Whether a value is as the schema says.
    pub fn accepts(&self, value: &Value) -> Result<(), String> {
        self.0.validate(value, self.1).map_err(|error| format!("{error:#}"))
    }
}

thread_local! {
    static ENGINE: Engine = Engine::default();
    static KNOWN: RefCell<HashMap<u16, Rc<Types>>> = RefCell::default();
}

/// The types of a number: always the same.
pub fn of(number: u16) -> Rc<Types> {
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&number).cloned()) {
        return known;
    }
    let types = Rc::new(ENGINE.with(|engine| make(engine, number)));
    KNOWN.with_borrow_mut(|known| {
        if known.len() >= MAX_TYPES {
            known.clear();
        }
        known.insert(number, Rc::clone(&types));
    });
    types
}

fn make(engine: &Engine, number: u16) -> Types {
    let mut dice = Dice(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut definitions = Vec::new();
    let ty = dice.ty(MAX_TYPE_DEPTH, &mut definitions);
    let wit = format!(
        "package t:t; interface i {{ {}\necho: func(p: {ty}) -> tuple<{ty}>; plain: func() -> {ty}; }} world w {{ export i; }}",
        definitions.join("\n")
    );
    let mut resolve = Resolve::default();
    let package = resolve.push_str("test.wit", &wit).unwrap_or_else(|error| panic!("{error:#}\n{wit}"));
    let world = resolve.select_world(&[package], None).expect("a world");
    let mut module = dummy_module(&resolve, world, ManglingAndAbi::Standard32);
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("its types");
    let encoder = ComponentEncoder::default().module(&module).expect("a module");
    let wasm = encoder.validate(true).encode().expect("a component");
    let component = Component::new(engine, wasm).expect("a component");
    let mut tools = describe::tools(&component, engine).unwrap_or_else(|error| panic!("{error}\n{wit}"));
    let plain = tools.pop().expect("two functions").signature;
    let echo = tools.pop().expect("two functions").signature;
    Types {
        input: Judge::new(echo.input_schema()),
        output: Judge::new(echo.output_schema()),
        alone: Judge::new(plain.output_schema()),
        echo,
        plain,
    }
}

/// Numbers that look random, from one that says which.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % sides
    }

    /// A type as WIT, with what it needs defined before it.
    fn ty(&mut self, deep: u32, definitions: &mut Vec<String>) -> String {
        const PLAIN: [&str; 14] = [
            "bool", "u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64", "char", "string",
            "list<u8>",
        ];
        let kinds = if deep == 0 { 9 } else { 16 };
        let (keyword, parts): (&str, Vec<String>) = match self.roll(kinds) {
            0..=6 => return PLAIN[self.roll(PLAIN.len() as u64) as usize].to_owned(),
            7 => ("enum", self.names()),
            8 => ("flags", self.names()),
            9 => return format!("list<{}>", self.ty(deep - 1, definitions)),
            10 | 11 => return format!("option<{}>", self.ty(deep - 1, definitions)),
            12 => {
                let items: Vec<_> = (0..=self.roll(3)).map(|_| self.ty(deep - 1, definitions)).collect();
                return format!("tuple<{}>", items.join(", "));
            }
            13 => {
                let (ok, err) = (self.ty(deep - 1, definitions), self.ty(deep - 1, definitions));
                return match self.roll(4) {
                    0 => "result".to_owned(),
                    1 => format!("result<{ok}>"),
                    2 => format!("result<_, {err}>"),
                    _ => format!("result<{ok}, {err}>"),
                };
            }
            14 => {
                let fields = self
                    .names()
                    .into_iter()
                    .map(|name| format!("{name}: {}", self.ty(deep - 1, definitions)));
                ("record", fields.collect())
            }
            _ => {
                let cases = self.names().into_iter().map(|name| match self.roll(3) {
                    0 => name,
                    _ => format!("{name}({})", self.ty(deep - 1, definitions)),
                });
                ("variant", cases.collect())
            }
        };
        let name = format!("t{}", definitions.len());
        definitions.push(format!("{keyword} {name} {{ {} }}", parts.join(", ")));
        name
    }

    /// A few names, which a fuzzer soon knows.
    fn names(&mut self) -> Vec<String> {
        (0..=self.roll(4)).map(|n| ["a", "b", "tag", "value", "ok"][n as usize].to_owned()).collect()
    }
}
