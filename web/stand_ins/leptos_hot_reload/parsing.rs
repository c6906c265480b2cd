//! What Leptos's macros ask about the parts of a view.

use rstml::node::{CustomNode, NodeElement, NodeName};
use syn::{Expr, ExprLit, Lit};

/// The text of a literal that can stand in HTML as it is.
pub fn value_to_string(value: &Expr) -> Option<String> {
    let Expr::Lit(ExprLit { lit, .. }) = value else {
        return None;
    };
    match lit {
        Lit::Str(text) => Some(text.value()),
        Lit::Char(char) => Some(char.value().into()),
        Lit::Int(number) => Some(number.base10_digits().to_owned()),
        Lit::Float(number) => Some(number.base10_digits().to_owned()),
        _ => None,
    }
}

/// Whether an element is a component (`<Table/>`), not an element of HTML (`<table>`): its name
/// begins with a capital letter.
pub fn is_component_node(node: &NodeElement<impl CustomNode>) -> bool {
    let NodeName::Path(path) = node.name() else {
        return false;
    };
    let last = path.path.segments.last();
    last.is_some_and(|name| {
        name.ident
            .to_string()
            .starts_with(|first: char| first.is_ascii_uppercase())
    })
}
