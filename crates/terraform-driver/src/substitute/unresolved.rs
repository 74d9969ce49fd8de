//! Finds unresolved placeholders: interpolations of a bare name that is not declared.
//!
//! In a template `${name}` is valid HCL only where a `for` declares the name, so the text is parsed and scopes are tracked. Text
//! that does not parse is skipped; rendering reports the error.

use hcl_edit::{
    expr::{Expression, ForExpr},
    structure::Body,
    template::{ForDirective, Interpolation, Template},
    visit::{Visit, visit_for_directive, visit_for_expr, visit_interpolation},
};

pub(super) fn unresolved_in_body(text: &str) -> Vec<String> {
    let Ok(body) = text.parse::<Body>() else { return Vec::new() };
    let mut finder = UnresolvedFinder::default();
    finder.visit_body(&body);
    finder.found
}

pub(super) fn unresolved_in_template(text: &str) -> Vec<String> {
    let Ok(template) = text.parse::<Template>() else { return Vec::new() };
    let mut finder = UnresolvedFinder::default();
    finder.visit_template(&template);
    finder.found
}

#[derive(Default)]
struct UnresolvedFinder {
    declared: Vec<String>,
    found: Vec<String>,
}

impl UnresolvedFinder {
    fn with_scope(&mut self, names: impl IntoIterator<Item = String>, visit: impl FnOnce(&mut Self)) {
        let before = self.declared.len();
        self.declared.extend(names);
        visit(self);
        self.declared.truncate(before);
    }
}

impl Visit for UnresolvedFinder {
    fn visit_for_expr(&mut self, node: &ForExpr) {
        let intro = &node.intro;
        let names = intro.key_var.iter().chain([&intro.value_var]).map(|name| name.as_str().to_owned());
        self.with_scope(names, |finder| visit_for_expr(finder, node));
    }

    fn visit_for_directive(&mut self, node: &ForDirective) {
        let intro = &node.for_expr;
        let names = intro.key_var.iter().chain([&intro.value_var]).map(|name| name.as_str().to_owned());
        self.with_scope(names, |finder| visit_for_directive(finder, node));
    }

    fn visit_interpolation(&mut self, node: &Interpolation) {
        if let Expression::Variable(name) = &node.expr
            && !self.declared.iter().any(|declared| declared == name.as_str())
            && !self.found.iter().any(|found| found == name.as_str())
        {
            self.found.push(name.as_str().to_owned());
        }
        visit_interpolation(self, node);
    }
}
