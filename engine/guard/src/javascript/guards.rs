//! Checks that a program makes before it uses a value: membership in a list, a whole match of a pattern, a
//! folder that a path has to lie in, a schema that no text fits.

use oxc_ast::ast::{Argument, Expression, ObjectExpression, ObjectPropertyKind, PropertyKey, Statement};
use oxc_span::GetSpan;

/// Names that a test vouches for.
#[derive(Default)]
pub(super) struct Checked<'e, 'a> {
    pub(super) if_true: Vec<&'e Expression<'a>>,
    pub(super) if_false: Vec<&'e Expression<'a>>,
}

impl<'e, 'a> Checked<'e, 'a> {
    fn when(name: Option<&'e Expression<'a>>) -> Self {
        Checked { if_true: name.into_iter().collect(), if_false: Vec::new() }
    }
    fn negated(self) -> Self {
        Checked { if_true: self.if_false, if_false: self.if_true }
    }
}

/// Names that `test` vouches for, as identifiers.
pub(super) fn checked<'e, 'a>(test: &'e Expression<'a>) -> Checked<'e, 'a> {
    match test.get_inner_expression() {
        Expression::UnaryExpression(unary) if unary.operator.is_not() => checked(&unary.argument).negated(),
        Expression::LogicalExpression(both) => {
            let (left, right) = (checked(&both.left), checked(&both.right));
            let mut sum = Checked::default();
            match both.operator.as_str() {
                "&&" => sum.if_true.extend(left.if_true.into_iter().chain(right.if_true)),
                "||" => sum.if_false.extend(left.if_false.into_iter().chain(right.if_false)),
                _ => {}
            }
            sum
        }
        Expression::BinaryExpression(compared) => {
            let right = compared.right.get_inner_expression();
            let fixed = matches!(right, Expression::StringLiteral(_) | Expression::NumericLiteral(_));
            // `LIST.indexOf(x) === -1`.
            if let Expression::CallExpression(call) = compared.left.get_inner_expression()
                && let Expression::StaticMemberExpression(member) = call.callee.get_inner_expression()
                && member.property.name == "indexOf"
                && !matches!(member.object.get_inner_expression(), Expression::StringLiteral(_))
            {
                let named =
                    Checked::when(call.arguments.first().and_then(Argument::as_expression).and_then(root));
                return match compared.operator.as_str() {
                    "===" | "==" | "<" => named.negated(),
                    "!==" | "!=" | ">" | ">=" => named,
                    _ => Checked::default(),
                };
            }
            match compared.operator.as_str() {
                "===" | "==" if fixed => Checked::when(root(&compared.left)),
                "!==" | "!=" if fixed => Checked::when(root(&compared.left)).negated(),
                "in" => Checked::when(root(&compared.left)),
                _ => Checked::default(),
            }
        }
        Expression::CallExpression(call) => {
            let Expression::StaticMemberExpression(member) = call.callee.get_inner_expression() else {
                return Checked::default();
            };
            let first = call.arguments.first().and_then(Argument::as_expression);
            match member.property.name.as_str() {
                // A text that contains something forbidden is a list of what is bad.
                "includes" | "has" | "hasOwn" | "hasOwnProperty"
                    if !matches!(
                        first.map(Expression::get_inner_expression),
                        Some(Expression::StringLiteral(_))
                    ) =>
                {
                    let last = call.arguments.last().and_then(Argument::as_expression);
                    Checked::when(last.and_then(root))
                }
                "test" => match member.object.get_inner_expression() {
                    Expression::RegExpLiteral(pattern) => {
                        let text = pattern.regex.pattern.text.as_str();
                        let whole = text.starts_with('^') && text.ends_with('$');
                        Checked::when(first.and_then(root).filter(|_| whole))
                    }
                    Expression::Identifier(name)
                        if name.name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_') =>
                    {
                        Checked::when(first.and_then(root))
                    }
                    _ => Checked::default(),
                },
                "startsWith"
                    if !matches!(
                        first.map(Expression::get_inner_expression),
                        Some(Expression::StringLiteral(_))
                    ) =>
                {
                    Checked::when(root(&member.object))
                }
                _ => Checked::default(),
            }
        }
        _ => Checked::default(),
    }
}

/// Identifier whose value an expression is a form or a piece of: `x`, `x.trim()`, `path.resolve(x)`.
fn root<'e, 'a>(expression: &'e Expression<'a>) -> Option<&'e Expression<'a>> {
    match expression.get_inner_expression() {
        inner @ Expression::Identifier(_) => Some(inner),
        Expression::CallExpression(call) => {
            let Expression::StaticMemberExpression(member) = call.callee.get_inner_expression() else {
                return None;
            };
            match member.property.name.as_str() {
                "trim" | "toLowerCase" | "toUpperCase" | "toString" | "split" => root(&member.object),
                "resolve" | "normalize" | "realpathSync" => {
                    call.arguments.last().and_then(Argument::as_expression).and_then(root)
                }
                _ => None,
            }
        }
        Expression::ComputedMemberExpression(member)
            if matches!(member.expression.get_inner_expression(), Expression::NumericLiteral(_)) =>
        {
            root(&member.object)
        }
        _ => None,
    }
}

/// True when control never reaches the end of a statement.
pub(super) fn diverts(statement: &Statement<'_>) -> bool {
    match statement {
        Statement::ReturnStatement(_)
        | Statement::ThrowStatement(_)
        | Statement::ContinueStatement(_)
        | Statement::BreakStatement(_) => true,
        Statement::BlockStatement(block) => block.body.last().is_some_and(diverts),
        _ => false,
    }
}

/// Fields of a schema that no text fits: `z.enum([…])`, `z.number()`.
pub(super) fn closed_fields(schema: &ObjectExpression<'_>, source: &str) -> Vec<String> {
    let mut out = Vec::new();
    for property in &schema.properties {
        let ObjectPropertyKind::ObjectProperty(property) = property else { continue };
        let PropertyKey::StaticIdentifier(key) = &property.key else { continue };
        let (from, to) = super::span(property.value.span());
        let text = source.get(from..to).unwrap_or("");
        let closed =
            ["z.enum(", "z.number(", "z.boolean(", "z.literal(", "z.nativeEnum(", ".regex(", ".uuid("];
        if closed.iter().any(|kind| text.contains(kind)) {
            out.push(key.name.to_string());
        }
    }
    out
}

/// True for a schema, or the description of a tool with one, of which no field is open.
pub(super) fn all_closed(object: &ObjectExpression<'_>, source: &str) -> bool {
    let schema = object.properties.iter().find_map(|property| match property {
        ObjectPropertyKind::ObjectProperty(property)
            if ["inputSchema", "parameters", "schema"]
                .iter()
                .any(|key| property.key.is_specific_static_name(key)) =>
        {
            Some(&property.value)
        }
        _ => None,
    });
    let fields = match schema {
        Some(Expression::ObjectExpression(fields)) => fields,
        Some(_) => return false,
        None => object,
    };
    let (from, to) = super::span(fields.span);
    let text = source.get(from..to).unwrap_or("");
    let is_open = ["z.string(", "z.any(", "z.unknown(", "z.object(", "z.array(", "z.record(", "z.union("]
        .iter()
        .any(|kind| text.contains(kind));
    !is_open
        && !fields.properties.is_empty()
        && closed_fields(fields, source).len() == fields.properties.len()
}
