//! The stack machine, with values reduced to what matters for the report.

use super::{known, nested};

/// Maximum number of opcodes in one pickle; a table of a million numbers has this many.
const MAX_OPCODES: usize = 3_000_000;
/// Maximum number of recorded calls; exceeding it is reported.
const MAX_CALLS: usize = 200_000;
/// Maximum nesting of pickles in arrays of objects.
const MAX_PICKLE_DEPTH: usize = 8;

/// A value on the stack.
#[derive(Clone, Copy)]
pub(super) enum Item<'a> {
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    Int(i64),
    /// Index in [`Walk::globals`].
    Global(usize),
    /// Returned by the call with this index in [`Walk::calls`].
    Result(usize),
    /// Index in [`Walk::sequences`]: a tuple, a list, a set; a mapping as alternating keys and values.
    Sequence(usize),
    /// Any other data.
    Other,
}

/// A call made while loading.
pub(super) struct Call<'a> {
    pub(super) callee: Item<'a>,
    /// A sequence, unless a malformed pickle unpacks another value.
    pub(super) args: Item<'a>,
}

/// How a pickle ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Stop,
    Broken,
    TooLong,
}

/// Walk over a pickle: its names and calls.
pub(super) struct Walk<'a> {
    pub(super) globals: Vec<String>,
    pub(super) calls: Vec<Call<'a>>,
    pub(super) sequences: Vec<Vec<Item<'a>>>,
    /// Values that may be pickles.
    pub(super) values: Vec<&'a [u8]>,
    /// True when something registered elsewhere, or returned by another call, is called.
    pub(super) unknown: bool,
    /// True when something is called that another call looked up by its name.
    pub(super) chained: bool,
    pub(super) end: End,
    /// Number of bytes up to the end.
    pub(super) length: usize,
    bytes: &'a [u8],
    stack: Vec<Item<'a>>,
    marks: Vec<usize>,
    memo: rustc_hash::FxHashMap<usize, Item<'a>>,
    names: rustc_hash::FxHashMap<String, usize>,
    left: usize,
    depth: usize,
}

impl<'a> Walk<'a> {
    /// Walks the pickle at the start of these bytes.
    pub(super) fn over(bytes: &'a [u8]) -> Walk<'a> {
        let mut walk = Walk {
            globals: Vec::new(),
            calls: Vec::new(),
            sequences: Vec::new(),
            values: Vec::new(),
            unknown: false,
            chained: false,
            end: End::Broken,
            length: 0,
            bytes,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: rustc_hash::FxHashMap::default(),
            names: rustc_hash::FxHashMap::default(),
            left: MAX_OPCODES,
            depth: 0,
        };
        walk.run();
        walk
    }

    fn run(&mut self) {
        self.end = loop {
            if self.left == 0 || self.calls.len() > MAX_CALLS {
                break End::TooLong;
            }
            self.left -= 1;
            match self.step() {
                Some(false) => {}
                Some(true) => break End::Stop,
                None => break End::Broken,
            }
        };
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.length.checked_add(count)?;
        let out = self.bytes.get(self.length..end)?;
        self.length = end;
        Some(out)
    }

    /// An unsigned little-endian number of `width` bytes.
    fn number(&mut self, width: usize) -> Option<usize> {
        let bytes = self.take(width)?;
        bytes.iter().rev().try_fold(0usize, |sum, b| sum.checked_mul(256)?.checked_add(usize::from(*b)))
    }

    fn sized(&mut self, width: usize) -> Option<&'a [u8]> {
        let size = self.number(width)?;
        self.take(size)
    }

    fn line(&mut self) -> Option<&'a [u8]> {
        let size = self.bytes.get(self.length..)?.iter().position(|b| *b == b'\n')?;
        let line = self.take(size)?;
        self.length += 1;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    fn push(&mut self, item: Item<'a>) {
        if let Item::Text(value) | Item::Bytes(value) = item
            && self.values.len() < nested::MAX_VALUES
            && nested::may_be_pickle(value)
        {
            self.values.push(value);
        }
        self.stack.push(item);
    }

    fn pop(&mut self) -> Option<Item<'a>> {
        let floor = self.marks.last().copied().unwrap_or(0);
        (self.stack.len() > floor).then(|| self.stack.pop())?
    }

    /// Items above the last mark.
    fn marked(&mut self) -> Option<Vec<Item<'a>>> {
        let mark = self.marks.pop()?;
        Some(self.stack.split_off(mark.min(self.stack.len())))
    }

    fn sequence(&mut self, items: Vec<Item<'a>>) -> Item<'a> {
        self.sequences.push(items);
        Item::Sequence(self.sequences.len() - 1)
    }

    fn put(&mut self, key: usize) -> Option<()> {
        let top = *self.stack.last()?;
        self.memo.insert(key, top);
        Some(())
    }

    fn get(&mut self, key: usize) -> Option<()> {
        let item = *self.memo.get(&key)?;
        self.push(item);
        Some(())
    }

    /// Adds items to the value below: a list, a set or a mapping.
    fn extend(&mut self, items: &[Item<'a>]) -> Option<()> {
        if let Item::Sequence(at) = *self.stack.last()? {
            self.sequences.get_mut(at)?.extend_from_slice(items);
        }
        Some(())
    }

    fn global(&mut self, module: &[u8], name: &[u8]) -> Option<Item<'a>> {
        let (module, name) = (known::plain(module), known::plain(name));
        let (module, name) = (std::str::from_utf8(&module).ok()?, std::str::from_utf8(&name).ok()?);
        let is_name = |text: &str| {
            !text.is_empty()
                && text.len() < 512
                && text.chars().all(|c| c.is_alphanumeric() || "_.<>".contains(c))
        };
        if !is_name(module) || !is_name(name) {
            return None;
        }
        // Old names of these modules.
        let module = match module {
            "__builtin__" | "__builtins__" => "builtins",
            "copy_reg" => "copyreg",
            other => other,
        };
        let full = format!("{module}.{name}");
        if let Some(at) = self.names.get(&full) {
            return Some(Item::Global(*at));
        }
        self.globals.push(full.clone());
        self.names.insert(full, self.globals.len() - 1);
        Some(Item::Global(self.globals.len() - 1))
    }

    fn call(&mut self, callee: Item<'a>, args: Item<'a>) {
        // A value from the reader's own table of persistent objects, or of another call.
        self.unknown |= matches!(callee, Item::Other | Item::Result(_));
        self.chained |= self.called(callee).is_some_and(known::is_getter);
        self.calls.push(Call { callee, args });
        self.push(Item::Result(self.calls.len() - 1));
    }

    /// Executes one opcode; `true` at the end, `None` where a loader would fail.
    fn step(&mut self) -> Option<bool> {
        match self.take(1)?[0] {
            b'.' => {
                self.pop()?;
                return Some(true);
            }
            0x80 => _ = self.take(1)?,
            0x95 => _ = self.take(8)?,
            b'(' => self.marks.push(self.stack.len()),
            b'0' => {
                if self.pop().is_none() {
                    self.marked()?;
                }
            }
            b'1' => _ = self.marked()?,
            b'2' => {
                let top = *self.stack.last()?;
                self.push(top);
            }
            b'N' | 0x88 | 0x89 | 0x97 => self.push(Item::Other),
            0x98 => {}
            b'I' | b'L' => {
                let line = std::str::from_utf8(self.line()?).ok()?.trim_end_matches('L');
                self.push(line.trim().parse().map_or(Item::Other, Item::Int));
            }
            b'F' | b'P' => {
                self.line()?;
                self.push(Item::Other);
            }
            b'J' => {
                let number = i32::from_le_bytes(self.take(4)?.try_into().ok()?);
                self.push(Item::Int(number.into()));
            }
            op @ (b'K' | b'M') => {
                let number = self.number(if op == b'K' { 1 } else { 2 })?;
                self.push(Item::Int(i64::try_from(number).ok()?));
            }
            op @ (0x8a | 0x8b) => {
                self.sized(if op == 0x8a { 1 } else { 4 })?;
                self.push(Item::Other);
            }
            b'G' => {
                self.take(8)?;
                self.push(Item::Other);
            }
            b'S' => {
                let line = self.line()?;
                let quote = *line.first().filter(|q| matches!(q, b'"' | b'\''))?;
                let text = line.strip_prefix(&[quote])?.strip_suffix(&[quote])?;
                self.push(Item::Text(text));
            }
            b'V' => {
                let line = self.line()?;
                self.push(Item::Text(line));
            }
            op @ (b'X' | b'T' | b'U' | 0x8c | 0x8d) => {
                let text = self.sized(match op {
                    b'U' | 0x8c => 1,
                    0x8d => 8,
                    _ => 4,
                })?;
                self.push(Item::Text(text));
            }
            op @ (b'B' | b'C' | 0x8e | 0x96) => {
                let bytes = self.sized(match op {
                    b'C' => 1,
                    b'B' => 4,
                    _ => 8,
                })?;
                self.push(Item::Bytes(bytes));
            }
            b')' | b']' | b'}' | 0x8f => {
                let empty = self.sequence(Vec::new());
                self.push(empty);
            }
            b't' | b'l' | b'd' | 0x91 => {
                let items = self.marked()?;
                let all = self.sequence(items);
                self.push(all);
            }
            op @ 0x85..=0x87 => {
                let count = usize::from(op - 0x84);
                let mut items = (0..count).map(|_| self.pop()).collect::<Option<Vec<_>>>()?;
                items.reverse();
                let all = self.sequence(items);
                self.push(all);
            }
            b'a' => {
                let item = self.pop()?;
                self.extend(&[item])?;
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.extend(&[key, value])?;
            }
            b'e' | b'u' | 0x90 => {
                let items = self.marked()?;
                self.extend(&items)?;
            }
            b'p' => {
                let key = std::str::from_utf8(self.line()?).ok()?.trim().parse().ok()?;
                self.put(key)?;
            }
            op @ (b'q' | b'r') => {
                let key = self.number(if op == b'q' { 1 } else { 4 })?;
                self.put(key)?;
            }
            0x94 => self.put(self.memo.len())?,
            b'g' => {
                let key = std::str::from_utf8(self.line()?).ok()?.trim().parse().ok()?;
                self.get(key)?;
            }
            op @ (b'h' | b'j') => {
                let key = self.number(if op == b'h' { 1 } else { 4 })?;
                self.get(key)?;
            }
            b'Q' => {
                self.pop()?;
                self.push(Item::Other);
            }
            op @ (0x82..=0x84) => {
                self.take(1 << (op - 0x82))?;
                self.unknown = true;
                self.push(Item::Other);
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                let global = self.global(module, name)?;
                self.push(global);
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let global = match (module, name) {
                    (Item::Text(module), Item::Text(name)) => self.global(module, name)?,
                    // Names computed by a call.
                    _ => {
                        self.unknown = true;
                        Item::Other
                    }
                };
                self.push(global);
            }
            b'R' | 0x81 => {
                let (args, callee) = (self.pop()?, self.pop()?);
                self.call(callee, args);
            }
            0x92 => {
                let (_named, args, callee) = (self.pop()?, self.pop()?, self.pop()?);
                self.call(callee, args);
            }
            b'o' => {
                let mut items = self.marked()?;
                if items.is_empty() {
                    return None;
                }
                let callee = items.remove(0);
                let args = self.sequence(items);
                self.call(callee, args);
            }
            b'i' => {
                let (module, name) = (self.line()?, self.line()?);
                let callee = self.global(module, name)?;
                let items = self.marked()?;
                let args = self.sequence(items);
                self.call(callee, args);
            }
            b'b' => {
                let state = self.pop()?;
                let object = *self.stack.last()?;
                self.array(object, state)?;
            }
            _ => return None,
        }
        Some(false)
    }

    /// After an array's wrapper, joblib writes the array itself into the stream: raw, or as another pickle.
    fn array(&mut self, object: Item<'a>, state: Item<'a>) -> Option<()> {
        if self.called(object) != Some("joblib.numpy_pickle.NumpyArrayWrapper") {
            return Some(());
        }
        let Item::Sequence(at) = state else { return None };
        let pairs: Vec<(&[u8], Item<'a>)> = self.sequences[at]
            .chunks_exact(2)
            .filter_map(|pair| if let Item::Text(key) = pair[0] { Some((key, pair[1])) } else { None })
            .collect();
        let field = |name: &[u8]| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let (shape, dtype, aligned) =
            (field(b"shape")?, field(b"dtype")?, field(b"numpy_array_alignment_bytes"));
        let (Item::Sequence(shape), Item::Result(dtype)) = (shape, dtype) else { return None };
        let count = self.sequences[shape].iter().try_fold(1usize, |sum, item| match item {
            Item::Int(size) => sum.checked_mul(usize::try_from(*size).ok()?),
            _ => None,
        })?;
        let Item::Sequence(args) = self.calls[dtype].args else { return None };
        let Item::Text(kind) = *self.sequences[args].first()? else { return None };
        let kind = std::str::from_utf8(kind).ok()?.trim_start_matches(['<', '>', '=', '|']);
        if kind.starts_with('O') {
            return self.nested();
        }
        let width: usize = kind.get(1..)?.parse().ok()?;
        let width = if kind.starts_with('U') { width.checked_mul(4)? } else { width };
        if matches!(aligned, Some(Item::Int(_))) {
            self.sized(1)?;
        }
        self.take(count.checked_mul(width)?)?;
        Some(())
    }

    /// A pickle embedded in this one, with its own stack and memo.
    fn nested(&mut self) -> Option<()> {
        if self.depth == MAX_PICKLE_DEPTH {
            return None;
        }
        let outer = (
            std::mem::take(&mut self.stack),
            std::mem::take(&mut self.marks),
            std::mem::take(&mut self.memo),
        );
        self.depth += 1;
        self.run();
        self.depth -= 1;
        (self.stack, self.marks, self.memo) = outer;
        (self.end == End::Stop).then_some(())
    }

    /// Name of the function whose call produced an item.
    pub(super) fn called(&self, item: Item<'_>) -> Option<&str> {
        let Item::Result(at) = item else { return None };
        let Item::Global(name) = self.calls.get(at)?.callee else { return None };
        self.globals.get(name).map(String::as_str)
    }
}
