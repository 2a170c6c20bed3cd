//! The type of a value, as a tree that is built once and then drives schema, arguments and answers.

use std::collections::BTreeMap;

use wasmtime::component::types::{ResourceType, Type};

/// Maximum nesting depth of a type. Far below the limits of the JSON reader and of stacks.
const MAX_TYPE_DEPTH: usize = 64;
/// Maximum number of types in one signature when every use is written out, as in a schema.
const MAX_TYPES: usize = 2_048;
/// Maximum length of a name in bytes: clients of models accept no longer ones.
const MAX_NAME_BYTES: usize = 64;

/// A type, with the documentation of its name, if there is any. Equality ignores documentation.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub kind: Kind,
    pub doc: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Bool,
    Int(Int),
    F32,
    F64,
    Char,
    String,
    Bytes,
    Blob,
    List(Box<Shape>),
    Fixed(Box<Shape>, usize),
    Map(Box<Shape>, Box<Shape>),
    Record(Vec<Field>),
    Tuple(Vec<Shape>),
    Variant(Vec<Case>),
    Enum(Vec<Name>),
    Flags(Vec<Name>),
    Option(Box<Shape>),
    Result(Option<Box<Shape>>, Option<Box<Shape>>),
    Handle(Handle),
}

/// A handle of a resource that the component itself defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    /// Name of the resource; empty for any.
    pub name: String,
    /// Number of the resource among those of its component; `None` for any.
    pub resource: Option<usize>,
    /// Whether a call that takes the handle uses it up (`own`).
    pub own: bool,
}

/// Resources that values of a component may have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resources<'a> {
    /// The imported `hotcell:tool/blob.blob`.
    pub blob: Option<&'a ResourceType>,
    /// Resources that the component itself exports, with their names.
    pub own: &'a [(String, ResourceType)],
}

impl Resources<'_> {
    fn handle(&self, of: &ResourceType, own: bool) -> Option<Kind> {
        let number = self.own.iter().position(|(_, resource)| resource == of)?;
        Some(Kind::Handle(Handle { name: self.own[number].0.clone(), resource: Some(number), own }))
    }
}

/// The integers, by their ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Int {
    S8,
    U8,
    S16,
    U16,
    S32,
    U32,
    S64,
    U64,
}

/// A field of a record, or a parameter.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub name: String,
    pub doc: String,
    pub shape: Shape,
}

/// A case of a variant.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub name: String,
    pub doc: String,
    pub shape: Option<Shape>,
}

/// A case of an enum, or a flag.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub name: String,
    pub doc: String,
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}
impl PartialEq for Field {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.shape == other.shape
    }
}
impl PartialEq for Case {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.shape == other.shape
    }
}
impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Int {
    /// Smallest and largest value.
    pub fn range(self) -> (i128, i128) {
        match self {
            Self::S8 => (i8::MIN.into(), i8::MAX.into()),
            Self::U8 => (0, u8::MAX.into()),
            Self::S16 => (i16::MIN.into(), i16::MAX.into()),
            Self::U16 => (0, u16::MAX.into()),
            Self::S32 => (i32::MIN.into(), i32::MAX.into()),
            Self::U32 => (0, u32::MAX.into()),
            Self::S64 => (i64::MIN.into(), i64::MAX.into()),
            Self::U64 => (0, u64::MAX.into()),
        }
    }

    /// Whether values may exceed those that a double holds exactly.
    pub fn wide(self) -> bool {
        matches!(self, Self::S64 | Self::U64)
    }
}

impl Shape {
    pub fn new(kind: Kind) -> Self {
        Self { kind, doc: String::new() }
    }

    pub fn is_option(&self) -> bool {
        matches!(self.kind, Kind::Option(_))
    }

    /// Whether a value of this type may have a handle in it.
    pub fn has_handle(&self) -> bool {
        match &self.kind {
            Kind::Handle(_) => true,
            Kind::List(item) | Kind::Fixed(item, _) | Kind::Option(item) => item.has_handle(),
            Kind::Map(key, value) => key.has_handle() || value.has_handle(),
            Kind::Record(fields) => fields.iter().any(|field| field.shape.has_handle()),
            Kind::Tuple(items) => items.iter().any(Self::has_handle),
            Kind::Variant(cases) => cases.iter().filter_map(|case| case.shape.as_ref()).any(Self::has_handle),
            Kind::Result(ok, err) => [ok, err].into_iter().flatten().any(|shape| shape.has_handle()),
            _ => false,
        }
    }
}

/// Documentation of a component's named types. A type in a signature has lost its name, so it is found by its
/// shape, first among those of its own interface; if two types of that shape are documented differently,
/// neither is used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Docs<'a> {
    pub near: &'a [(Shape, TypeDoc)],
    pub far: &'a [(Shape, TypeDoc)],
}

/// The documentation of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TypeDoc {
    pub doc: String,
    /// Documentation of its fields, cases or flags.
    pub items: BTreeMap<String, String>,
}

impl Docs<'_> {
    fn find(&self, shape: &Shape) -> Option<&TypeDoc> {
        [self.near, self.far].into_iter().find_map(|docs| {
            let mut all = docs.iter().filter(|(known, _)| known == shape).map(|(_, doc)| doc);
            let first = all.next()?;
            all.all(|other| other == first).then_some(first)
        })
    }
}

/// Reads the types of one signature, within one budget.
pub(crate) struct Reader<'a> {
    resources: Resources<'a>,
    docs: Docs<'a>,
    nodes: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    pub fn new(resources: Resources<'a>, docs: Docs<'a>) -> Self {
        Self { resources, docs, nodes: 0, depth: 0 }
    }

    pub fn field(&mut self, name: &str, ty: &Type) -> Result<Field, String> {
        Ok(Field { name: known(name)?, doc: String::new(), shape: self.shape(ty)? })
    }

    pub fn shape(&mut self, ty: &Type) -> Result<Shape, String> {
        self.nodes += 1;
        self.depth += 1;
        if self.nodes > MAX_TYPES || self.depth > MAX_TYPE_DEPTH {
            return Err(format!(
                "the types are too large for a tool: more than {MAX_TYPES}, or nested more than {MAX_TYPE_DEPTH} deep"
            ));
        }
        let mut shape = Shape::new(self.kind(ty)?);
        self.depth -= 1;
        if let Some(found) = self.docs.find(&shape) {
            shape.doc.clone_from(&found.doc);
            let item = |name: &str| found.items.get(name).cloned().unwrap_or_default();
            match &mut shape.kind {
                Kind::Record(fields) => fields.iter_mut().for_each(|field| field.doc = item(&field.name)),
                Kind::Variant(cases) => cases.iter_mut().for_each(|case| case.doc = item(&case.name)),
                Kind::Enum(names) | Kind::Flags(names) => {
                    names.iter_mut().for_each(|name| name.doc = item(&name.name));
                }
                _ => {}
            }
        }
        Ok(shape)
    }

    fn boxed(&mut self, ty: &Type) -> Result<Box<Shape>, String> {
        self.shape(ty).map(Box::new)
    }

    fn kind(&mut self, ty: &Type) -> Result<Kind, String> {
        Ok(match ty {
            Type::Bool => Kind::Bool,
            Type::S8 => Kind::Int(Int::S8),
            Type::U8 => Kind::Int(Int::U8),
            Type::S16 => Kind::Int(Int::S16),
            Type::U16 => Kind::Int(Int::U16),
            Type::S32 => Kind::Int(Int::S32),
            Type::U32 => Kind::Int(Int::U32),
            Type::S64 => Kind::Int(Int::S64),
            Type::U64 => Kind::Int(Int::U64),
            Type::Float32 => Kind::F32,
            Type::Float64 => Kind::F64,
            Type::Char => Kind::Char,
            Type::String => Kind::String,
            Type::List(list) => match list.ty() {
                Type::U8 => Kind::Bytes,
                item => Kind::List(self.boxed(&item)?),
            },
            Type::FixedLengthList(list) => {
                let length =
                    usize::try_from(list.len()).map_err(|_| "a list of too many elements".to_owned())?;
                Kind::Fixed(self.boxed(&list.ty())?, length)
            }
            Type::Map(map) => Kind::Map(self.boxed(&map.key())?, self.boxed(&map.value())?),
            Type::Record(record) => {
                let mut fields = Vec::new();
                for field in record.fields() {
                    fields.push(
                        self.field(field.name, &field.ty)
                            .map_err(|error| format!("field '{}': {error}", field.name))?,
                    );
                }
                Kind::Record(fields)
            }
            Type::Tuple(tuple) => {
                Kind::Tuple(tuple.types().map(|ty| self.shape(&ty)).collect::<Result<_, _>>()?)
            }
            Type::Variant(variant) => {
                let mut cases = Vec::new();
                for case in variant.cases() {
                    let shape = case.ty.map(|ty| self.shape(&ty)).transpose();
                    let shape = shape.map_err(|error| format!("case '{}': {error}", case.name))?;
                    cases.push(Case { name: self.name(case.name)?.name, doc: String::new(), shape });
                }
                Kind::Variant(cases)
            }
            Type::Enum(names) => {
                Kind::Enum(names.names().map(|name| self.name(name)).collect::<Result<_, _>>()?)
            }
            Type::Flags(names) => {
                Kind::Flags(names.names().map(|name| self.name(name)).collect::<Result<_, _>>()?)
            }
            Type::Option(option) => Kind::Option(self.boxed(&option.ty())?),
            Type::Result(result) => Kind::Result(
                result.ok().map(|ty| self.boxed(&ty)).transpose()?,
                result.err().map(|ty| self.boxed(&ty)).transpose()?,
            ),
            Type::Own(resource) if Some(resource) == self.resources.blob => Kind::Blob,
            Type::Own(resource) => {
                self.resources.handle(resource, true).ok_or("a resource (own) has no form in JSON")?
            }
            Type::Borrow(resource) => {
                self.resources.handle(resource, false).ok_or("a resource (borrow) has no form in JSON")?
            }
            Type::Future(_) => return Err("a future has no form in JSON".into()),
            Type::Stream(_) => return Err("a stream has no form in JSON".into()),
            Type::ErrorContext => return Err("an error-context has no form in JSON".into()),
        })
    }

    /// Names count like types, since a schema lists them all.
    fn name(&mut self, name: &str) -> Result<Name, String> {
        self.nodes += 1;
        if self.nodes > MAX_TYPES {
            return Err(format!("the types are too large for a tool: more than {MAX_TYPES}"));
        }
        Ok(Name { name: known(name)?, doc: String::new() })
    }
}

fn known(name: &str) -> Result<String, String> {
    if name.len() > MAX_NAME_BYTES {
        Err(format!("a name is longer than {MAX_NAME_BYTES} bytes"))
    } else {
        Ok(name.to_owned())
    }
}
