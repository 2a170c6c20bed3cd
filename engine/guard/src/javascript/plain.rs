//! A program in the plain form in which checks of hosts are looked for.

use super::span;
use crate::hosts::{At, Expr as Plain, FunctionId, Kind, MAX_NESTING, Program, Statement};
use oxc_ast::ast::{
    Argument, ArrayExpressionElement, ArrowFunctionExpression, AssignmentTarget, BindingPattern,
    ChainElement, Class, ClassElement, Declaration, ExportDefaultDeclarationKind, Expression,
    ForStatementInit, ForStatementLeft, FormalParameters, Function, ObjectPropertyKind, Statement as Js,
    VariableDeclaration,
};
use oxc_span::GetSpan;

/// A program in plain form.
pub(super) fn program(body: &[Js<'_>]) -> Program {
    let mut lowering = Lowering { program: Program::default(), depth: 0 };
    let body = lowering.block(body);
    lowering.program.ended(body)
}

struct Lowering {
    program: Program,
    depth: usize,
}

type Block = Vec<Statement>;

impl Lowering {
    fn block(&mut self, body: &[Js<'_>]) -> Block {
        let mut out = Vec::new();
        for statement in body {
            self.statement(statement, &mut out);
        }
        out
    }

    fn one(&mut self, statement: &Js<'_>) -> Block {
        let mut out = Vec::new();
        self.statement(statement, &mut out);
        out
    }

    fn statement(&mut self, statement: &Js<'_>, out: &mut Block) {
        self.depth += 1;
        if self.depth <= MAX_NESTING {
            self.lowered(statement, out);
        }
        self.depth -= 1;
    }

    fn lowered(&mut self, statement: &Js<'_>, out: &mut Block) {
        let at = span(statement.span());
        let kind = match statement {
            Js::BlockStatement(block) => Kind::Block(self.block(&block.body)),
            Js::BreakStatement(_) | Js::ContinueStatement(_) => Kind::Leave,
            Js::ExpressionStatement(statement) => return self.run(&statement.expression, at, out),
            Js::ForInStatement(it) => self.loops(&it.left, &it.right, &it.body),
            Js::ForOfStatement(it) => self.loops(&it.left, &it.right, &it.body),
            Js::ForStatement(it) => {
                if let Some(ForStatementInit::VariableDeclaration(declaration)) = &it.init {
                    self.declares(declaration, out);
                }
                let over = it.test.iter().map(|test| self.value(test)).collect();
                let over = self.program.over(&[], Plain::Other(over));
                Kind::Loop(Vec::new(), over, self.one(&it.body))
            }
            Js::WhileStatement(it) => {
                let test = vec![self.value(&it.test)];
                let over = self.program.over(&[], Plain::Other(test));
                Kind::Loop(Vec::new(), over, self.one(&it.body))
            }
            Js::DoWhileStatement(it) => Kind::Block(self.one(&it.body)),
            Js::IfStatement(it) => {
                let test = self.value(&it.test);
                let yes = self.one(&it.consequent);
                let no = it.alternate.as_ref().map(|other| self.one(other)).unwrap_or_default();
                Kind::If(test, yes, no)
            }
            Js::LabeledStatement(it) => Kind::Block(self.one(&it.body)),
            Js::ReturnStatement(it) => {
                Kind::Return(it.argument.iter().map(|value| self.value(value)).collect())
            }
            Js::ThrowStatement(it) => Kind::Raise(vec![self.value(&it.argument)]),
            Js::SwitchStatement(it) => {
                let mut all = Vec::new();
                for case in &it.cases {
                    let body = self.block(&case.consequent);
                    let kind = match &case.test {
                        Some(test) => {
                            let (subject, test) = (self.boxed(&it.discriminant), self.boxed(test));
                            Kind::If(Plain::Equal(subject, test), body, Vec::new())
                        }
                        None => Kind::Block(body),
                    };
                    all.push(Statement { at: span(case.span), kind });
                }
                Kind::Block(all)
            }
            Js::TryStatement(it) => {
                let body = self.block(&it.block.body);
                let handlers = it.handler.iter().map(|handler| self.block(&handler.body.body)).collect();
                let rest = it.finalizer.as_ref().map(|rest| self.block(&rest.body)).unwrap_or_default();
                Kind::Try(body, handlers, rest)
            }
            Js::ExportDeclaration(it) => return self.declaration(&it.declaration, at, out),
            Js::ExportDefaultDeclaration(it) => match &it.declaration {
                ExportDefaultDeclarationKind::FunctionDeclaration(function) => {
                    Kind::Define(self.function(function, ""))
                }
                ExportDefaultDeclarationKind::ClassDeclaration(class) => Kind::Block(self.class(class)),
                other => match other.as_expression() {
                    Some(expression) => Kind::Run(self.value(expression)),
                    None => return,
                },
            },
            other => match other.as_declaration() {
                Some(declaration) => return self.declaration(declaration, at, out),
                None => return,
            },
        };
        out.push(Statement { at, kind });
    }

    fn declaration(&mut self, declaration: &Declaration<'_>, at: At, out: &mut Block) {
        let kind = match declaration {
            Declaration::VariableDeclaration(it) => return self.declares(it, out),
            Declaration::FunctionDeclaration(function) => Kind::Define(self.function(function, "")),
            Declaration::ClassDeclaration(class) => Kind::Block(self.class(class)),
            _ => return,
        };
        out.push(Statement { at, kind });
    }

    fn declares(&mut self, it: &VariableDeclaration<'_>, out: &mut Block) {
        for declarator in &it.declarations {
            let value = match &declarator.init {
                Some(init) => self.value(init),
                None => Plain::Nothing,
            };
            self.assign(&declarator.id, value, span(declarator.span), out);
        }
    }

    /// Binds the names of a pattern.
    fn assign(&mut self, pattern: &BindingPattern<'_>, value: Plain, at: At, out: &mut Block) {
        match pattern {
            BindingPattern::BindingIdentifier(name) => {
                let kind = self.program.bind(vec![name.name.as_str().into()], value);
                out.push(Statement { at, kind });
            }
            BindingPattern::ObjectPattern(object) => {
                // One name for what is taken apart.
                let whole: Box<str> = match value {
                    Plain::Name(name) => name,
                    value => {
                        let whole: Box<str> = format!("?{}", at.0).into();
                        let kind = self.program.bind(vec![whole.clone()], value);
                        out.push(Statement { at, kind });
                        whole
                    }
                };
                for property in &object.properties {
                    let Some(key) = property.key.static_name() else { continue };
                    let member = Plain::Member(Box::new(Plain::Name(whole.clone())), (&*key).into());
                    self.assign(&property.value, member, at, out);
                }
            }
            BindingPattern::ArrayPattern(array) => {
                let mut names = Vec::new();
                for element in array.elements.iter().flatten() {
                    if let Some(name) = element.get_identifier_name() {
                        names.push(name.as_str().into());
                    }
                }
                let kind = self.program.bind(names, value);
                out.push(Statement { at, kind });
            }
            BindingPattern::AssignmentPattern(pattern) => self.assign(&pattern.left, value, at, out),
        }
    }

    fn loops(&mut self, left: &ForStatementLeft<'_>, right: &Expression<'_>, body: &Js<'_>) -> Kind {
        let names: Vec<Box<str>> = match left {
            ForStatementLeft::VariableDeclaration(it) => {
                it.declarations.iter().flat_map(|one| names(&one.id)).collect()
            }
            _ => Vec::new(),
        };
        let over = self.value(right);
        let over = self.program.over(&names, over);
        Kind::Loop(names, over, self.one(body))
    }

    /// An expression that is a statement.
    fn run(&mut self, expression: &Expression<'_>, at: At, out: &mut Block) {
        if let Expression::AssignmentExpression(assign) = expression.get_inner_expression()
            && let AssignmentTarget::AssignmentTargetIdentifier(name) = &assign.left
        {
            let mut value = self.value(&assign.right);
            if !assign.operator.is_assign() {
                value = Plain::Other(vec![Plain::Name(name.name.as_str().into()), value]);
            }
            let kind = self.program.bind(vec![name.name.as_str().into()], value);
            out.push(Statement { at, kind });
            return;
        }
        let kind = Kind::Run(self.value(expression));
        out.push(Statement { at, kind });
    }

    fn function(&mut self, function: &Function<'_>, name: &str) -> FunctionId {
        let own = function.id.as_ref().map_or(name, |id| id.name.as_str()).to_owned();
        let at = span(function.span);
        let (params, mut body) = self.params(&function.params, at);
        if let Some(block) = &function.body {
            body.extend(self.block(&block.statements));
        }
        self.program.define(&own, params, body, at)
    }

    fn arrow(&mut self, arrow: &ArrowFunctionExpression<'_>) -> FunctionId {
        let at = span(arrow.span);
        let (params, mut body) = self.params(&arrow.params, at);
        match arrow.body.as_expression() {
            Some(answer) => {
                let value = self.value(answer);
                body.push(Statement { at: span(answer.span()), kind: Kind::Return(vec![value]) });
            }
            None => {
                if let oxc_ast::ast::ArrowFunctionBody::FunctionBody(block) = &arrow.body {
                    body.extend(self.block(&block.statements));
                }
            }
        }
        self.program.define("", params, body, at)
    }

    /// Names of parameters; those that are taken apart get one, and are taken apart at the beginning of the body.
    fn params(&mut self, params: &FormalParameters<'_>, at: At) -> (Vec<Box<str>>, Block) {
        let (mut all, mut body): (Vec<Box<str>>, Block) = (Vec::new(), Vec::new());
        for (position, item) in params.items.iter().enumerate() {
            if let Some(name) = item.pattern.get_identifier_name() {
                all.push(name.as_str().into());
                continue;
            }
            let name: Box<str> = format!("?{}.{position}", at.0).into();
            self.assign(&item.pattern, Plain::Name(name.clone()), (at.0, at.0), &mut body);
            all.push(name);
        }
        (all, body)
    }

    fn class(&mut self, class: &Class<'_>) -> Block {
        let mut out = Vec::new();
        for element in &class.body.body {
            match element {
                ClassElement::MethodDefinition(method) => {
                    let name = super::classes::key_name(&method.key).unwrap_or_default();
                    let kind = Kind::Define(self.function(&method.value, &name));
                    out.push(Statement { at: span(method.span), kind });
                }
                ClassElement::PropertyDefinition(property) => {
                    let Some(value) = &property.value else { continue };
                    let name = super::classes::key_name(&property.key).unwrap_or_default();
                    let value = self.value(value);
                    let kind = self.program.bind(vec![name.into()], value);
                    out.push(Statement { at: span(property.span), kind });
                }
                ClassElement::StaticBlock(block) => out.extend(self.block(&block.body)),
                _ => {}
            }
        }
        out
    }

    fn value(&mut self, expression: &Expression<'_>) -> Plain {
        self.depth += 1;
        let plain = if self.depth > MAX_NESTING {
            Plain::Other(Vec::new())
        } else {
            self.plain(expression.get_inner_expression())
        };
        self.depth -= 1;
        plain
    }

    fn boxed(&mut self, expression: &Expression<'_>) -> Box<Plain> {
        Box::new(self.value(expression))
    }

    fn plain(&mut self, expression: &Expression<'_>) -> Plain {
        match expression {
            Expression::Identifier(name) if name.name == "undefined" => Plain::Nothing,
            Expression::Identifier(name) => Plain::Name(name.name.as_str().into()),
            Expression::ThisExpression(_) => Plain::Name("this".into()),
            Expression::StringLiteral(text) => Plain::Text(text.value.as_str().into()),
            Expression::RegExpLiteral(pattern) => Plain::Text(pattern.regex.pattern.text.as_str().into()),
            #[allow(clippy::cast_possible_truncation)]
            Expression::NumericLiteral(number) => Plain::Number(number.value as i64),
            Expression::BooleanLiteral(flag) if flag.value => Plain::True,
            Expression::BooleanLiteral(_) | Expression::NullLiteral(_) => Plain::Nothing,
            Expression::TemplateLiteral(template) => {
                let mut all = Vec::new();
                for (at, quasi) in template.quasis.iter().enumerate() {
                    let text = quasi.value.cooked.as_ref().unwrap_or(&quasi.value.raw);
                    all.push(Plain::Text(text.as_str().into()));
                    all.extend(template.expressions.get(at).map(|piece| self.value(piece)));
                }
                match &all[..] {
                    [Plain::Text(_)] => all.pop().unwrap_or(Plain::Nothing),
                    _ => Plain::Other(all),
                }
            }
            Expression::StaticMemberExpression(member) => {
                Plain::Member(self.boxed(&member.object), member.property.name.as_str().into())
            }
            Expression::PrivateFieldExpression(member) => {
                Plain::Member(self.boxed(&member.object), format!("#{}", member.field.name).into())
            }
            Expression::ComputedMemberExpression(member) => {
                let owner = self.boxed(&member.object);
                match self.value(&member.expression) {
                    Plain::Text(key) => Plain::Member(owner, key),
                    key => Plain::Index(owner, Box::new(key)),
                }
            }
            Expression::ChainExpression(chain) => match &chain.expression {
                ChainElement::CallExpression(call) => {
                    self.call(&call.callee, &call.arguments, span(call.span))
                }
                ChainElement::TSNonNullExpression(inner) => self.value(&inner.expression),
                other => match other.as_member_expression() {
                    Some(member) => {
                        let owner = self.boxed(member.object());
                        let name = member.static_property_name().unwrap_or("");
                        Plain::Member(owner, name.into())
                    }
                    None => Plain::Other(Vec::new()),
                },
            },
            Expression::CallExpression(call) => self.call(&call.callee, &call.arguments, span(call.span)),
            Expression::NewExpression(new) => self.call(&new.callee, &new.arguments, span(new.span)),
            Expression::ArrowFunctionExpression(arrow) => Plain::Function(self.arrow(arrow)),
            Expression::FunctionExpression(function) => Plain::Function(self.function(function, "")),
            Expression::ClassExpression(class) => {
                let body = self.class(class);
                Plain::Function(self.program.define("", Vec::new(), body, span(class.span)))
            }
            Expression::AwaitExpression(inner) => self.value(&inner.argument),
            Expression::YieldExpression(inner) => {
                Plain::Other(inner.argument.iter().map(|inner| self.value(inner)).collect())
            }
            Expression::UnaryExpression(unary) if unary.operator.is_not() => {
                Plain::Not(self.boxed(&unary.argument))
            }
            Expression::UnaryExpression(unary) => match self.value(&unary.argument) {
                Plain::Number(number) if unary.operator.as_str() == "-" => {
                    Plain::Number(number.saturating_neg())
                }
                other => Plain::Other(vec![other]),
            },
            Expression::LogicalExpression(both) => {
                let all = vec![self.value(&both.left), self.value(&both.right)];
                if both.operator.as_str() == "&&" { Plain::And(all) } else { Plain::Or(all) }
            }
            Expression::ConditionalExpression(either) => {
                let test = self.boxed(&either.test);
                Plain::Choice(test, self.boxed(&either.consequent), self.boxed(&either.alternate))
            }
            Expression::BinaryExpression(binary) => {
                let (left, right) = (self.boxed(&binary.left), self.boxed(&binary.right));
                match (binary.operator.as_str(), &*right) {
                    ("==" | "===", _) => Plain::Equal(left, right),
                    ("!=" | "!==", _) => Plain::Not(Box::new(Plain::Equal(left, right))),
                    ("in", _) => Plain::In(left, right),
                    // `LIST.indexOf(x) >= 0`.
                    (">", Plain::Number(-1)) | (">=", Plain::Number(0)) => *left,
                    ("<", Plain::Number(0)) => Plain::Not(left),
                    _ => Plain::Other(vec![*left, *right]),
                }
            }
            Expression::AssignmentExpression(assign) => {
                let value = self.value(&assign.right);
                match &assign.left {
                    AssignmentTarget::AssignmentTargetIdentifier(name) => {
                        let name: Box<str> = name.name.as_str().into();
                        match self.program.bind(vec![name.clone()], value) {
                            Kind::Bind(_, value) => Plain::Named(name, value),
                            _ => Plain::Other(Vec::new()),
                        }
                    }
                    _ => Plain::Other(vec![value]),
                }
            }
            Expression::SequenceExpression(list) => {
                Plain::Other(list.expressions.iter().map(|one| self.value(one)).collect())
            }
            Expression::ArrayExpression(array) => {
                let mut all = Vec::new();
                for element in &array.elements {
                    match element {
                        ArrayExpressionElement::SpreadElement(spread) => {
                            all.push(self.value(&spread.argument));
                        }
                        other => all.extend(other.as_expression().map(|one| self.value(one))),
                    }
                }
                Plain::List(all)
            }
            Expression::ObjectExpression(object) => {
                let mut all = Vec::new();
                for property in &object.properties {
                    match property {
                        ObjectPropertyKind::SpreadProperty(spread) => all.push(self.value(&spread.argument)),
                        ObjectPropertyKind::ObjectProperty(property) => {
                            let key = property.key.static_name();
                            let value = self.value(&property.value);
                            if let (Some(key), Plain::Function(id)) = (&key, &value) {
                                self.program.name(key, *id);
                            }
                            // Keys of a table of hosts.
                            all.extend(key.map(|key| Plain::Text((&*key).into())));
                            all.push(value);
                        }
                    }
                }
                Plain::Other(all)
            }
            Expression::TaggedTemplateExpression(tagged) => {
                Plain::Other(tagged.quasi.expressions.iter().map(|one| self.value(one)).collect())
            }
            _ => Plain::Other(Vec::new()),
        }
    }

    fn call(&mut self, callee: &Expression<'_>, arguments: &[Argument<'_>], at: At) -> Plain {
        let function = self.boxed(callee);
        let mut args: Vec<(Box<str>, Plain)> = Vec::new();
        for argument in arguments {
            match argument {
                Argument::SpreadElement(spread) => args.push(("".into(), self.value(&spread.argument))),
                other => args.extend(other.as_expression().map(|one| ("".into(), self.value(one)))),
            }
        }
        Plain::Call { function, args, at }
    }
}

/// Names that a pattern binds.
fn names(pattern: &BindingPattern<'_>) -> Vec<Box<str>> {
    match pattern {
        BindingPattern::BindingIdentifier(name) => vec![name.name.as_str().into()],
        BindingPattern::ObjectPattern(object) => {
            object.properties.iter().flat_map(|property| names(&property.value)).collect()
        }
        BindingPattern::ArrayPattern(array) => array.elements.iter().flatten().flat_map(names).collect(),
        BindingPattern::AssignmentPattern(pattern) => names(&pattern.left),
    }
}
