//! Reports texts, mappings and places; rules decide what they mean.

use std::rc::Rc;

use crate::language::Language;
use crate::rules::TextKind;
use crate::value::Value;

use super::Python;

impl Python<'_, '_, '_> {
    /// Reports a text in the source.
    pub(super) fn tell_text(&mut self, text: &str, at: (usize, usize)) {
        if !self.emit || text.len() < 4 {
            return;
        }
        let raw = self.source.get(at.0..at.1).unwrap_or("");
        self.cx.text(TextKind::String, text, at, if hidden_by_escapes(raw) { &["escapes"] } else { &[] });
        self.cx.encoded(text, at);
        self.tell_model(text, at);
    }

    /// Reports a text in a server of tools: what a tool answers with is read by a model, too.
    fn tell_model(&mut self, text: &str, at: (usize, usize)) {
        if self.flow.serves_models && crate::instructions::may_order(text) {
            self.fact_with("model.text", &[Value::text(text)], at);
        }
    }

    /// Reports an assembled text.
    pub(super) fn tell_computed(&mut self, value: &Value, at: (usize, usize)) {
        if self.emit
            && let Some(text) = value.as_text().filter(|t| t.len() >= 4)
        {
            let chain = value.chain.clone();
            self.cx.text(TextKind::String, text, at, &chain);
            self.tell_model(text, at);
        }
    }

    /// Reports a mapping that describes a container or a pod: rules can check its entries like named
    /// arguments.
    pub(super) fn tell_map(&mut self, pairs: &[(Value, Value)], at: (usize, usize)) {
        const KEYS: [&str; 7] =
            ["Privileged", "privileged", "hostPID", "hostIPC", "host_pid", "Binds", "PidMode"];
        let is_told = |(key, text): &&(Value, Value)| {
            text.as_text().is_some()
                && key.as_text().is_some_and(|key| crate::instructions::is_told_of(key, text))
        };
        for (_, text) in pairs.iter().filter(is_told) {
            self.fact_with("model.text", std::slice::from_ref(text), at);
        }
        if !self.emit || !pairs.iter().any(|(key, _)| key.as_text().is_some_and(|t| KEYS.contains(&t))) {
            return;
        }
        let kwargs: Vec<(Rc<str>, Value)> =
            pairs.iter().filter_map(|(k, v)| Some((k.as_text()?.into(), v.clone()))).collect();
        let call = crate::rules::Call {
            names: &["<map>".into()],
            method: None,
            receiver: None,
            args: &[],
            kwargs: &kwargs,
            context: self.spot,
        };
        self.cx.call(Language::Python, &call, at);
    }

    /// Reports a word that matters and was assembled so that it does not occur in the source.
    pub(super) fn spelled(&mut self, value: &Value, at: (usize, usize)) {
        if self.emit
            && let Some(text) = value.as_whole_text()
            && crate::spelled::hidden_word(text, self.source).is_some()
        {
            self.fact("spelled", at);
        }
    }

    pub(super) fn fact(&mut self, name: &str, at: (usize, usize)) {
        if self.emit {
            self.cx.fact_with(Language::Python, name, at, &[], self.spot);
        }
    }

    pub(super) fn fact_with(&mut self, name: &str, args: &[Value], at: (usize, usize)) {
        if self.emit {
            self.cx.fact_with(Language::Python, name, at, args, self.spot);
        }
    }
}

fn hidden_by_escapes(raw: &str) -> bool {
    raw.contains('\\') && raw.matches("\\x").count() + raw.matches("\\u").count() >= 4
}
