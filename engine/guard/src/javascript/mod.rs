//! JavaScript and TypeScript: reports calls by canonical names, with the possible values of their arguments.
//!
//! A file is walked twice, first to learn the values of its names, then to report. Names are resolved through
//! scopes: `x` in two functions is two variables, and a local `exec` is not confused with another.

mod call;
mod classes;
mod files;
mod flow;
mod fold;
mod guards;
mod holders;
mod indirect;
mod packages;
mod plain;
mod pollute;
mod reach;
mod spelled;
mod value;

use crate::limits::too_deep;
use crate::report::{PartState, StepKind};
use crate::value::{Const, Value};
use oxc_allocator::Allocator;
use oxc_ast::Comment;
use oxc_ast::ast::{
    Argument, ArrowFunctionExpression, AssignmentExpression, AssignmentTarget, BinaryExpression,
    BindingIdentifier, BindingPattern, CallExpression, Class, ExportAllDeclaration, ExportDefaultDeclaration,
    ExportDefaultDeclarationKind, ExportFromDeclaration, ExportNamedDeclaration, Expression,
    ExpressionStatement, ForOfStatement, ForStatement, ForStatementLeft, FormalParameters, Function,
    IdentifierReference, IfStatement, ImportDeclaration, ImportDeclarationSpecifier, ImportExpression,
    MethodDefinition, NewExpression, ObjectExpression, ObjectProperty, PropertyDefinition, PropertyKey,
    ReturnStatement, StringLiteral, TSImportEqualsDeclaration, TSModuleReference, TaggedTemplateExpression,
    TemplateLiteral, VariableDeclarator, WhileStatement, YieldExpression,
};
use oxc_ast_visit::{Visit, walk};
use oxc_parser::Parser;
use oxc_semantic::{ScopeFlags, Scoping, SemanticBuilder, SymbolId};
use oxc_span::{GetSpan, SourceType, Span};
use rustc_hash::FxHashMap;

use crate::context::Cx;
use crate::language::Language;
use crate::rules::TextKind;

/// Maximum number of values of a name with one or two letters, above which it counts as reused.
const MAX_SHORT_NAME_VALUES: u32 = 4;
/// Maximum number of values of a longer name.
const MAX_NAME_VALUES: u32 = 16;

/// Reads a source; types are always allowed, since a runtime may strip them.
pub(crate) fn read(cx: &mut Cx<'_>, language: Language, source: &str) -> PartState {
    if source.len() > cx.limits.parse_bytes {
        cx.not_read("source too large to parse");
        return PartState::Skipped("source too large to parse".to_owned());
    }
    if let Some(why) = too_deep(source, cx.limits, false) {
        cx.not_read(why);
        return PartState::Skipped(why.to_owned());
    }
    let allocator = Allocator::default();
    let base = SourceType::mjs();
    let kinds = if language == Language::TypeScript {
        [base.with_typescript(true), base.with_typescript(true).with_jsx(true), base]
    } else {
        [
            base.with_jsx(true),
            base.with_script(true).with_jsx(true),
            base.with_typescript(true).with_jsx(true),
        ]
    };
    let mut parsed = Parser::new(&allocator, source, kinds[0]).parse();
    for kind in &kinds[1..] {
        if !parsed.panicked && parsed.diagnostics.is_empty() {
            break;
        }
        let again = Parser::new(&allocator, source, *kind).parse();
        if parsed.panicked || again.diagnostics.is_empty() {
            parsed = again;
        }
    }
    let clean = !parsed.panicked && parsed.diagnostics.is_empty();
    symbols_only(cx, source, &parsed.program.comments);
    for comment in &parsed.program.comments {
        let at = span(comment.span);
        cx.text(TextKind::Comment, source.get(at.0..at.1).unwrap_or(""), at, &[]);
    }
    let scoping = SemanticBuilder::new().build(&parsed.program).semantic.into_scoping();
    let mut js = Js {
        cx,
        source,
        scoping,
        vars: FxHashMap::default(),
        bound: FxHashMap::default(),
        joining: false,
        emit: false,
        flow: flow::Flow::default(),
        classes: classes::Classes::default(),
        requests: Vec::new(),
        options: Vec::new(),
        pushes: Vec::new(),
        merges: Vec::new(),
    };
    js.flow.serves_models = crate::instructions::serves_models(source);
    // Functions learn their arguments from calls, and pass on what they learnt.
    loop {
        js.flow.walk += 1;
        js.flow.learnt = false;
        js.visit_program(&parsed.program);
        if !js.flow.learnt {
            break;
        }
        if js.flow.walk >= flow::MAX_LEARNING_WALKS {
            js.cx.fact(Language::JavaScript, "flow.bounded", (0, 0));
            break;
        }
    }
    js.flow.walk += 1;
    js.emit = true;
    js.visit_program(&parsed.program);
    js.requested(&parsed.program.body);
    js.merged(&parsed.program);
    if !clean {
        // Code that the parser skipped is still checked as text.
        super::ingest::plain(cx, source);
        cx.fact(Language::JavaScript, "parse.partial", (0, 0));
        return PartState::Recovered;
    }
    PartState::Parsed
}

/// Reports programs that are written with six characters only.
fn symbols_only(cx: &mut Cx<'_>, source: &str, comments: &[Comment]) {
    let count = |text: &str| {
        let dense = text.bytes().filter(|b| !b.is_ascii_whitespace()).count();
        (dense, text.bytes().filter(|b| b"[]()!+{}".contains(b)).count())
    };
    let (mut dense, mut odd) = count(source);
    for comment in comments {
        let (start, end) = span(comment.span);
        let (words, symbols) = count(source.get(start..end).unwrap_or(""));
        dense = dense.saturating_sub(words);
        odd = odd.saturating_sub(symbols);
    }
    if dense >= 60 && odd * 100 >= dense * 85 {
        cx.fact(Language::JavaScript, "js.symbols", (0, source.len()));
    }
}

fn span(span: Span) -> (usize, usize) {
    (span.start as usize, span.end as usize)
}

/// Target of a name: a declaration, or a global that no scope of the file declares.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Name {
    Declared(SymbolId),
    Global(String),
}

struct Js<'c, 'p, 's> {
    cx: &'c mut Cx<'p>,
    source: &'s str,
    /// Declaration of each name.
    scoping: Scoping,
    vars: FxHashMap<Name, Value>,
    /// Number of assignments to each name, in all walks.
    bound: FxHashMap<Name, u32>,
    /// True inside a sum.
    joining: bool,
    /// True to report, false to learn only.
    emit: bool,
    flow: flow::Flow,
    classes: classes::Classes,
    /// Requests of addresses whose host a caller chooses.
    requests: Vec<(Value, Span)>,
    /// Programs that may take what a caller gives for an option.
    options: Vec<(Value, Span)>,
    /// Addresses from callers that a repository is pushed to.
    pushes: Vec<(Value, Span)>,
    /// Calls of functions of the file that are given an object of a caller.
    merges: Vec<(String, Value, Span)>,
}

impl Js<'_, '_, '_> {
    fn fact(&mut self, name: &str, at: Span) {
        if self.emit {
            self.cx.fact(Language::JavaScript, name, span(at));
        }
    }

    /// Target of a binding.
    fn declared(name: &BindingIdentifier<'_>) -> Name {
        name.symbol_id.get().map_or_else(|| Name::Global(name.name.to_string()), Name::Declared)
    }

    /// Target of a reference.
    fn referred(&self, name: &IdentifierReference<'_>) -> Name {
        let symbol = name.reference_id.get().and_then(|id| self.scoping.get_reference(id).symbol_id());
        symbol.map_or_else(|| Name::Global(name.name.to_string()), Name::Declared)
    }

    fn bind(&mut self, name: Name, text: &str, value: Value) {
        // A name with many values, such as a minifier's letters, says nothing about any of them.
        let times = self.bound.entry(name.clone()).or_default();
        *times += 1;
        let most = if text.len() <= 2 { MAX_SHORT_NAME_VALUES } else { MAX_NAME_VALUES };
        if *times > self.flow.walk.max(2) * most {
            self.vars.insert(name, Value::default());
            return;
        }
        let value = match self.vars.get(&name) {
            Some(older) => value.or(older),
            None => value,
        };
        self.vars.insert(name, value);
    }

    /// Binds the arguments of a function that is called where it is defined: `(function (r) { … })(require)`.
    fn given(&mut self, callee: &Expression<'_>, arguments: &[Argument<'_>]) {
        // `import(name).then(m => …)` gives the module.
        if let Expression::StaticMemberExpression(member) = callee.get_inner_expression()
            && member.property.name == "then"
            && let Expression::ImportExpression(_) = member.object.get_inner_expression()
            && let Some(first) = arguments.first().and_then(Argument::as_expression)
            && let Expression::ArrowFunctionExpression(_) | Expression::FunctionExpression(_) =
                first.get_inner_expression()
        {
            let module = self.value(&member.object);
            let parameters = match first.get_inner_expression() {
                Expression::ArrowFunctionExpression(arrow) => &arrow.params,
                Expression::FunctionExpression(function) => &function.params,
                _ => return,
            };
            if let Some(parameter) = parameters.items.first() {
                self.assign(&parameter.pattern, &module);
            }
            return;
        }
        let parameters: &FormalParameters<'_> = match callee.get_inner_expression() {
            Expression::FunctionExpression(function) => &function.params,
            Expression::ArrowFunctionExpression(function) => &function.params,
            // `(function (r) { … }).call(this, require)`.
            Expression::StaticMemberExpression(member) if member.property.name == "call" => {
                return self.given(&member.object, arguments.get(1..).unwrap_or(&[]));
            }
            _ => return,
        };
        let values = self.arguments(arguments);
        for (parameter, value) in parameters.items.iter().zip(&values) {
            self.assign(&parameter.pattern, value);
        }
    }

    fn assign(&mut self, pattern: &BindingPattern<'_>, value: &Value) {
        match pattern {
            BindingPattern::BindingIdentifier(name) => {
                self.bind(Self::declared(name), name.name.as_str(), value.clone());
            }
            BindingPattern::ObjectPattern(object) => {
                for property in &object.properties {
                    let key = match &property.key {
                        PropertyKey::StaticIdentifier(name) => Some(name.name.to_string()),
                        other => other
                            .as_expression()
                            .and_then(|e| self.value(e).as_whole_text().map(str::to_owned)),
                    };
                    let member = key.map(|key| self.member(value, &key)).unwrap_or_default();
                    self.assign(&property.value, &member);
                }
            }
            BindingPattern::ArrayPattern(array) => {
                let items = value.elements();
                for (at, element) in array.elements.iter().enumerate() {
                    if let Some(element) = element {
                        let item = items
                            .as_ref()
                            .and_then(|items| items.get(at).cloned())
                            .unwrap_or_else(|| Value::default().with_origin(value.origin));
                        self.assign(element, &item);
                    }
                }
            }
            BindingPattern::AssignmentPattern(pattern) => self.assign(&pattern.left, value),
        }
    }

    fn text(&mut self, text: &str, at: Span) {
        if !self.emit || text.len() < 4 {
            return;
        }
        let at = span(at);
        let raw = self.source.get(at.0..at.1).unwrap_or("");
        let disguised = raw.matches("\\x").count() + raw.matches("\\u").count() >= 4;
        self.cx.text(TextKind::String, text, at, if disguised { &["escapes"] } else { &[] });
        self.cx.encoded(text, at);
        // A model also reads the answers of tools.
        if self.flow.serves_models && crate::instructions::may_order(text) {
            self.cx.fact_with(Language::JavaScript, "model.text", at, &[Value::text(text)], 0);
        }
    }
}

impl<'a> Visit<'a> for Js<'_, '_, '_> {
    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        walk::walk_variable_declarator(self, it);
        if let (Some(init), BindingPattern::BindingIdentifier(name)) = (&it.init, &it.id) {
            self.called_from_files(name.name.as_str(), init);
        }
        if let Some(init) = &it.init {
            let value = self.value(init);
            let value = match &it.id {
                BindingPattern::BindingIdentifier(name) if value.trail.is_some() => {
                    value.stepped(StepKind::Bound, name.name.as_str(), span(it.id.span()))
                }
                _ => value,
            };
            self.assign(&it.id, &value);
        }
    }

    fn visit_assignment_expression(&mut self, it: &AssignmentExpression<'a>) {
        walk::walk_assignment_expression(self, it);
        let value = self.value(&it.right);
        match &it.left {
            AssignmentTarget::AssignmentTargetIdentifier(name) => {
                let own = self.referred(name);
                if it.operator.is_assign() {
                    self.bind(own, name.name.as_str(), value);
                } else if let Some(before) = self.vars.get(&own) {
                    // Not another value by chance: the one that it has grows.
                    let grown = crate::value::concat(before, &value);
                    self.vars.insert(own, grown);
                } else {
                    self.bind(own, name.name.as_str(), crate::value::concat(&Value::default(), &value));
                }
            }
            AssignmentTarget::StaticMemberExpression(member) => {
                let name = member.property.name.as_str();
                self.called_from_files(if name == "exports" { "default" } else { name }, &it.right);
                let owner = self.value(&member.object);
                self.sends_typed(&owner, member.property.name.as_str(), &it.right, it.span);
                self.stored(&owner, member.property.name.as_str(), &value, it.span);
                self.keeps(&owner, member.property.name.as_str(), &value);
            }
            AssignmentTarget::ComputedMemberExpression(member) => {
                let owner = self.value(&member.object);
                if let Some(key) = self.value(&member.expression).as_whole_text().map(str::to_owned) {
                    self.stored(&owner, &key, &value, it.span);
                }
            }
            other => self.keeps_private(other, &value),
        }
    }

    fn visit_import_declaration(&mut self, it: &ImportDeclaration<'a>) {
        self.module_in_address(&it.source);
        let module = packages::module(it.source.value.as_str());
        for specifier in it.specifiers.iter().flatten() {
            match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(one) => {
                    let name = packages::member(module, one.imported.name().as_str());
                    let value = value::origin_of(Value::name(&name));
                    self.bind(Self::declared(&one.local), one.local.name.as_str(), value);
                }
                ImportDeclarationSpecifier::ImportDefaultSpecifier(one) => {
                    self.bind(Self::declared(&one.local), one.local.name.as_str(), Value::name(module));
                }
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(one) => {
                    self.bind(Self::declared(&one.local), one.local.name.as_str(), Value::name(module));
                }
            }
        }
    }

    /// `import fs = require('fs');` of TypeScript.
    fn visit_ts_import_equals_declaration(&mut self, it: &TSImportEqualsDeclaration<'a>) {
        let TSModuleReference::ExternalModuleReference(module) = &it.module_reference else { return };
        self.module_in_address(&module.expression);
        let value = Value::name(packages::module(module.expression.value.as_str()));
        self.bind(Self::declared(&it.id), it.id.name.as_str(), value);
    }

    fn visit_import_expression(&mut self, it: &ImportExpression<'a>) {
        walk::walk_import_expression(self, it);
        let source = self.value(&it.source);
        self.imports(&source, it.span);
        if source.as_text().is_some_and(|t| t.starts_with("http") || t.starts_with("data:"))
            || source.origin.has(crate::value::Origin::NET)
        {
            self.fact("js.import_remote", it.span);
        }
    }

    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        self.begin_function(it.span.start, &it.params);
        if let Some(id) = &it.id {
            self.name_function(Self::declared(id), it.span.start);
            self.gets(id.name.as_str(), it.span.start);
        }
        walk::walk_function(self, it, flags);
        self.end_function();
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        self.begin_function(it.span.start, &it.params);
        walk::walk_arrow_function_expression(self, it);
        if let Some(answer) = it.body.as_expression() {
            let value = self.value(answer);
            self.returned(&value);
        }
        self.end_function();
    }

    fn visit_return_statement(&mut self, it: &ReturnStatement<'a>) {
        walk::walk_return_statement(self, it);
        if let Some(answer) = &it.argument {
            let value = self.value(answer);
            self.returned(&value);
        }
    }

    fn visit_yield_expression(&mut self, it: &YieldExpression<'a>) {
        walk::walk_yield_expression(self, it);
        if let Some(answer) = &it.argument {
            let value = self.value(answer);
            self.returned(&value);
        }
    }

    fn visit_method_definition(&mut self, it: &MethodDefinition<'a>) {
        if let Some(name) = classes::key_name(&it.key) {
            self.name_method(&name, it.value.span.start);
        }
        walk::walk_method_definition(self, it);
    }

    fn visit_class(&mut self, it: &Class<'a>) {
        let name = it.id.as_ref().map(|id| (Self::declared(id), id.name.as_str()));
        self.begin_class(it.span.start, name);
        self.methods_of(it);
        walk::walk_class(self, it);
        self.end_class();
    }

    fn visit_property_definition(&mut self, it: &PropertyDefinition<'a>) {
        walk::walk_property_definition(self, it);
        if let (Some(key), Some(value)) = (classes::key_name(&it.key), &it.value) {
            let (owner, value) = (self.instance(), self.value(value));
            self.keeps(&owner, &key, &value);
        }
    }

    fn visit_expression_statement(&mut self, it: &ExpressionStatement<'a>) {
        self.begin_unused(Some(&it.expression));
        walk::walk_expression_statement(self, it);
        self.end_unused();
    }

    fn visit_export_all_declaration(&mut self, it: &ExportAllDeclaration<'a>) {
        walk::walk_export_all_declaration(self, it);
        self.module_in_address(&it.source);
        if self.emit && it.exported.is_none() {
            self.cx.pass_on(None, it.source.value.as_str(), span(it.span));
        }
    }

    fn visit_export_named_declaration(&mut self, it: &ExportNamedDeclaration<'a>) {
        walk::walk_export_named_declaration(self, it);
        self.exports(it);
    }

    fn visit_export_from_declaration(&mut self, it: &ExportFromDeclaration<'a>) {
        walk::walk_export_from_declaration(self, it);
        self.module_in_address(&it.source);
        self.exports_from(it);
    }

    fn visit_export_default_declaration(&mut self, it: &ExportDefaultDeclaration<'a>) {
        walk::walk_export_default_declaration(self, it);
        match &it.declaration {
            ExportDefaultDeclarationKind::FunctionDeclaration(function) => {
                self.gets("default", function.span.start);
            }
            other => {
                if let Some(expression) = other.as_expression() {
                    self.called_from_files("default", expression);
                }
            }
        }
    }

    fn visit_if_statement(&mut self, it: &IfStatement<'a>) {
        self.conditional(it);
    }

    fn visit_object_expression(&mut self, it: &ObjectExpression<'a>) {
        self.described(it);
        walk::walk_object_expression(self, it);
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        self.given(&it.callee, &it.arguments);
        self.callbacks(it);
        let outer = std::mem::take(&mut self.joining);
        walk::walk_call_expression(self, it);
        self.joining = outer;
        self.spelled_call(it);
        self.taught(it);
        self.hands_on(it);
        self.events(it);
        if self.emit {
            self.told(&it.callee, &it.arguments, it.span, false);
            self.merges_given(it);
            self.sends_variable(it);
        }
    }

    fn visit_new_expression(&mut self, it: &NewExpression<'a>) {
        walk::walk_new_expression(self, it);
        self.constructed(it);
        self.proxied(it);
        if self.emit {
            self.told(&it.callee, &it.arguments, it.span, true);
        }
    }

    fn visit_tagged_template_expression(&mut self, it: &TaggedTemplateExpression<'a>) {
        walk::walk_tagged_template_expression(self, it);
        self.tagged(it);
        if self.emit {
            let tag = self.value(&it.tag);
            let text = self.template(&it.quasi);
            self.invoke(&tag, None, None, &[text], it.span);
            self.shell_template(it, &tag);
        }
    }

    fn visit_binary_expression(&mut self, it: &BinaryExpression<'a>) {
        let plus = it.operator.as_str() == "+";
        self.asks_for_password(it);
        let outer = std::mem::replace(&mut self.joining, plus);
        walk::walk_binary_expression(self, it);
        self.joining = outer;
        // The sum is reported as a whole, not each part.
        if self.emit && plus && !outer {
            let value = crate::value::concat(&self.value(&it.left), &self.value(&it.right));
            self.spelled(&value, it.span);
        }
    }

    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        if let ForStatementLeft::VariableDeclaration(declaration) = &it.left
            && let Some(first) = declaration.declarations.first()
        {
            let items = self.value(&it.right);
            // The most telling of constant names stands for all of them.
            let listed = items.elements().filter(|_| matches!(items.known, Some(Const::List(_))));
            let is_telling = |item: &Value| item.as_whole_text().is_some_and(crate::rules::is_secret);
            let telling = listed.and_then(|all| all.into_iter().take(64).find(is_telling));
            self.assign(&first.id, &telling.unwrap_or_default().made_of(&items));
        }
        walk::walk_for_of_statement(self, it);
    }

    fn visit_object_property(&mut self, it: &ObjectProperty<'a>) {
        if let (PropertyKey::StaticIdentifier(key), Expression::FunctionExpression(function)) =
            (&it.key, &it.value)
        {
            self.name_method(key.name.as_str(), function.span.start);
        }
        walk::walk_object_property(self, it);
        if let PropertyKey::StaticIdentifier(key) = &it.key {
            self.called_from_files(key.name.as_str(), &it.value);
        }
        if self.emit
            && let PropertyKey::StaticIdentifier(key) = &it.key
            && crate::instructions::may_be_told(key.name.as_str())
            && let text = self.value(&it.value)
            && crate::instructions::is_told_of(key.name.as_str(), &text)
        {
            let text = std::slice::from_ref(&text);
            self.cx.fact_with(Language::JavaScript, "model.text", span(it.span), text, 0);
        }
    }

    fn visit_string_literal(&mut self, it: &StringLiteral<'a>) {
        self.text(it.value.as_str(), it.span);
    }

    fn visit_template_literal(&mut self, it: &TemplateLiteral<'a>) {
        walk::walk_template_literal(self, it);
        if self.emit {
            let value = self.template(it);
            if let Some(text) = value.as_text() {
                let text = text.to_owned();
                self.text(&text, it.span);
            }
        }
    }

    fn visit_for_statement(&mut self, it: &ForStatement<'a>) {
        walk::walk_for_statement(self, it);
        let forever = it.test.as_ref().is_none_or(|test| is_true(test));
        if forever && it.update.is_none() {
            self.endless(it.body.span(), it.span);
        }
    }

    fn visit_while_statement(&mut self, it: &WhileStatement<'a>) {
        walk::walk_while_statement(self, it);
        if is_true(&it.test) {
            self.endless(it.body.span(), it.span);
        }
    }
}

impl Js<'_, '_, '_> {
    /// Reports a loop that never ends and waits for nothing.
    fn endless(&mut self, body: Span, whole: Span) {
        let (from, to) = span(body);
        let text = self.source.get(from..to).unwrap_or("");
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        if !words
            .into_iter()
            .any(|word| matches!(word, "break" | "return" | "throw" | "await" | "yield" | "exit"))
            && (text.matches('(').count() <= 2 || text.contains(".push("))
        {
            self.fact("loop.endless", whole);
        }
    }
}

fn is_true(test: &Expression<'_>) -> bool {
    match test {
        Expression::BooleanLiteral(flag) => flag.value,
        Expression::NumericLiteral(number) => number.value != 0.0,
        Expression::ParenthesizedExpression(inner) => is_true(&inner.expression),
        Expression::UnaryExpression(unary) => {
            matches!(&unary.argument, Expression::NumericLiteral(n) if n.value == 0.0)
                && unary.operator.is_not()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
