//! Comprehensions: their elements, one by one where all are known.

use super::{Python, Scope, span};
use crate::value::{Origin, Value};
use ruff_python_ast::{Comprehension, Expr};
use ruff_text_size::Ranged;
use smallvec::smallvec;

impl<'a> Python<'_, '_, 'a> {
    /// A comprehension that keeps all its elements.
    pub(super) fn listed(&mut self, generators: &'a [Comprehension], element: &'a Expr) -> Value {
        if let Some(first) = generators.first() {
            let iterated = self.quietly(&first.iter);
            self.huge_list(&iterated, span(first.iter.range()));
        }
        self.comprehension(generators, element)
    }

    pub(super) fn comprehension(&mut self, generators: &'a [Comprehension], element: &'a Expr) -> Value {
        self.scopes.push(Scope::default());
        let value = self.generate(generators, element);
        self.scopes.pop();
        // A condition chooses among what is met.
        if generators.iter().any(|one| !one.ifs.is_empty()) {
            value.without_origin(Origin::BACKUP)
        } else {
            value
        }
    }

    fn generate(&mut self, generators: &'a [Comprehension], element: &'a Expr) -> Value {
        let Some((first, rest)) = generators.split_first() else { return self.value(element) };
        let iterated = self.value(&first.iter);
        if rest.is_empty()
            && let Some(items) =
                iterated.elements().filter(|items| items.len() <= 16_384 && iterated.names.is_empty())
            && let Some(items) = self.that_stay(first, items)
        {
            // Only the first element is reported; the others differ only in content.
            let mut out = Vec::with_capacity(items.len());
            let emit = self.emit;
            for item in items {
                if !self.cx.tick() {
                    break;
                }
                self.assign(&first.target, item);
                out.push(self.value(element));
                self.emit = false;
            }
            self.emit = emit;
            let mut value = Value::list(out).made_of(&iterated);
            value.chain.clone_from(&iterated.chain);
            return value;
        }
        let item = self.element(&iterated);
        self.assign(&first.target, item);
        for test in &first.ifs {
            self.value(test);
        }
        let outer = self.spot;
        self.spot |= crate::rules::Spot::LOOP;
        let value = self.generate(rest, element);
        self.spot = outer;
        let all = Value::default().made_of(&value).made_of(&iterated);
        Value { names: smallvec!["?list".into()], ..all }
    }

    /// Whether a test of a comprehension holds, for texts too.
    fn test(&mut self, test: &'a Expr) -> Option<bool> {
        use ruff_python_ast::CmpOp;
        if let Expr::Compare(compare) = test
            && let ([op], [right]) = (&compare.ops[..], &compare.comparators[..])
        {
            let (left, right) = (self.value(&compare.left), self.value(right));
            if let (Some(a), Some(b)) = (left.as_whole_text(), right.as_whole_text()) {
                match op {
                    CmpOp::Eq => return Some(a == b),
                    CmpOp::NotEq => return Some(a != b),
                    CmpOp::In => return Some(b.contains(a)),
                    CmpOp::NotIn => return Some(!b.contains(a)),
                    _ => {}
                }
            }
        }
        self.value(test).truth()
    }

    /// The items that pass every test of a comprehension, where each test is known for each of them.
    fn that_stay(&mut self, of: &'a Comprehension, items: Vec<Value>) -> Option<Vec<Value>> {
        if of.ifs.is_empty() {
            return Some(items);
        }
        let emit = std::mem::replace(&mut self.emit, false);
        let mut stay = Vec::new();
        let mut is_known = true;
        for item in items {
            self.assign(&of.target, item.clone());
            let passed = of.ifs.iter().try_fold(true, |all, test| Some(all && self.test(test)?));
            match passed.filter(|_| self.cx.tick()) {
                Some(true) => stay.push(item),
                Some(false) => {}
                None => {
                    is_known = false;
                    break;
                }
            }
        }
        self.emit = emit;
        is_known.then_some(stay)
    }
}
