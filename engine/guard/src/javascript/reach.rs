//! Reach of values: what is met below the home folder, and what leaves for an address.

use super::{Js, span};
use crate::language::Language;
use crate::rules::{basename, is_home_whole, is_root_like};
use crate::value::{Const, HOLE, Origin, Value};
use oxc_ast::ast::{Argument, BinaryExpression, CallExpression, Expression};
use oxc_span::{GetSpan, Span};

/// Length of the source behind a test for a field's type in which the field is read, in bytes.
const NEAR: usize = 300;
/// Origins of what a walk or a listing meets.
pub(super) const MET: Origin = Origin(Origin::WIDE.0 | Origin::TREE.0);

/// Origin that a listing adds: far-reaching if it begins at the root or the home folder.
pub(super) fn listed(callee: &Value, args: &[Value]) -> Origin {
    let lists = callee
        .names
        .iter()
        .any(|name| matches!(&**name, "fs.readdir" | "fs.readdirSync" | "fs.opendir" | "fs.opendirSync"));
    let wide = args.first().filter(|_| lists).is_some_and(|root| {
        root.origin.has(Origin::WIDE)
            || root.as_text().is_some_and(is_root_like)
            || root.origin.has(Origin::HOME) && root.as_text().is_none_or(is_home_whole)
    });
    if wide { Origin::WIDE } else { Origin::default() }
}

/// Origin of files that are found by a pattern that names credentials: `findFiles('**/{.env,*.pem}')`.
pub(super) fn found(callee: &Value, args: &[Value]) -> Origin {
    let finds = callee.names.iter().any(|name| {
        matches!(
            &**name,
            "vscode.workspace.findFiles"
                | "glob"
                | "glob.sync"
                | "glob.glob"
                | "glob.globSync"
                | "fast-glob"
                | "fast-glob.sync"
                | "globby"
                | "globby.globby"
                | "globby.globbySync"
                | "fs.glob"
                | "fs.globSync"
        )
    });
    let mut patterns = args.first().filter(|_| finds).into_iter().flat_map(|first| match &first.known {
        Some(Const::List(items)) => items.to_vec(),
        _ => vec![first.clone()],
    });
    let is_named = patterns.any(|pattern| pattern.as_text().is_some_and(names_secrets));
    if is_named { Origin::SECRET } else { Origin::default() }
}

/// True for a pattern of files that names credentials.
fn names_secrets(pattern: &str) -> bool {
    let mut parts = pattern.split(['/', '\\', '{', '}', ',']);
    let is_secret = |part: &str| {
        matches!(
            part,
            ".env" | ".env*" | ".env.*" | "*.pem" | "*.key" | "*.p12" | "*.pfx" | "*.kdbx" | ".netrc"
        ) || part.starts_with("id_rsa")
            || part.starts_with("id_ed25519")
            || part == ".ssh"
    };
    parts.any(is_secret)
}

/// A path whose last part is constant is one file, not everything that a walk meets.
pub(super) fn narrowed(value: &Value) -> Value {
    let constant = |text: &str| {
        let last = basename(text);
        last.contains(char::is_alphanumeric) && !last.contains([HOLE, '*']) && !is_root_like(text)
    };
    if value.origin.has(MET) && value.as_text().is_some_and(constant) {
        return value.clone().without(MET);
    }
    value.clone()
}

impl Js<'_, '_, '_> {
    /// Reports a picture's address that contains what was typed into a field.
    pub(super) fn sends_typed(&mut self, owner: &Value, name: &str, value: &Expression<'_>, at: Span) {
        self.listens(owner, name, value);
        let is_pixel =
            name == "src" && owner.names.iter().any(|own| own.ends_with("Image()") || &**own == "Image");
        let (from, to) = span(value.span());
        let written = self.source.get(from..to).unwrap_or("");
        if is_pixel && written.contains(".value") && written.contains("//") {
            self.fact("page.value_sent", at);
        }
    }

    /// Reports a test for the fields that passwords are typed into: `e.target.type === 'password'`.
    pub(super) fn asks_for_password(&mut self, it: &BinaryExpression<'_>) {
        if it.operator.is_equality()
            && matches!(&it.left, Expression::StaticMemberExpression(member) if member.property.name == "type")
            && matches!(&it.right, Expression::StringLiteral(text) if text.value == "password")
        {
            let from = span(it.span).0;
            let to = self.source.floor_char_boundary(self.source.len().min(from + NEAR));
            // Buttons that show a password ask for the field's type too, without reading the field.
            if self.source.get(from..to).is_some_and(|after| after.contains(".value")) {
                self.fact("page.password_field", it.span);
            }
        }
    }

    /// Reports a request whose address contains a variable of the environment that is named like a secret.
    pub(super) fn sends_variable(&mut self, call: &CallExpression<'_>) {
        let Some(first) = call.arguments.first().and_then(Argument::as_expression) else { return };
        let (from, to) = span(first.span());
        let written = self.source.get(from..to).unwrap_or("");
        let is_secret = written.split("process.env.").skip(1).any(|rest| {
            let name: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            ["TOKEN", "SECRET", "PASSWORD", "PRIVATE_KEY", "ACCESS_KEY"]
                .iter()
                .any(|word| name.contains(word))
        });
        if is_secret {
            let address = self.value(first);
            self.cx.fact_with(Language::JavaScript, "env.secret_in_address", span(call.span), &[address], 0);
        }
    }
}
