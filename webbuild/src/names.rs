//! Gives short names to what a module imports from its script.
//!
//! The names that wasm-bindgen gives end in sixteen random digits, which no packing makes shorter.
//! Each of them stands in the module and, as the key of a function, in the script.

use std::collections::HashMap;
use std::convert::Infallible;

use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{ImportSection, Module};
use wasmparser::{ImportSectionReader, Parser, Payload};

use crate::fold::BadModule;

/// The module and its script, in which all that the module imports has a number for a name. A name
/// that is not the key of one function in the script stays.
///
/// # Errors
/// [`BadModule`] if it is no module.
pub fn shorten(module: &[u8], script: &str) -> Result<(Vec<u8>, String), BadModule> {
    let mut numbers = Numbers(HashMap::new());
    for payload in Parser::new(0).parse_all(module) {
        if let Payload::ImportSection(section) = payload? {
            for import in section.into_imports() {
                let name = import?.name;
                let number = numbers.0.len().to_string();
                if script.matches(name).count() == 1 && script.contains(&key(name)) {
                    numbers.0.insert(name.to_owned(), number);
                }
            }
        }
    }
    let mut script = script.to_owned();
    for (name, number) in &numbers.0 {
        script = script.replacen(&key(name), &key(number), 1);
    }
    let mut short = Module::new();
    numbers.parse_core_module(&mut short, Parser::new(0), module)?;
    Ok((short.finish(), script))
}

/// A function's key in an object.
fn key(name: &str) -> String {
    format!(" {name}: function(")
}

/// The new name of each that is replaced.
struct Numbers(HashMap<String, String>);

impl Reencode for Numbers {
    type Error = Infallible;

    fn parse_import_section(
        &mut self,
        imports: &mut ImportSection,
        section: ImportSectionReader<'_>,
    ) -> Result<(), Error> {
        for import in section.into_imports() {
            let import = import?;
            let kind = self.entity_type(import.ty)?;
            let name = self.0.get(import.name).map_or(import.name, String::as_str);
            imports.import(import.module, name, kind);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_encoder::{EntityType, TypeSection};

    fn module(names: &[&str]) -> Vec<u8> {
        let mut types = TypeSection::new();
        types.ty().function([], []);
        let mut imports = ImportSection::new();
        for name in names {
            imports.import("./a_bg.js", name, EntityType::Function(0));
        }
        let mut module = Module::new();
        module.section(&types).section(&imports);
        module.finish()
    }

    #[test]
    fn only_the_keys_of_functions_become_numbers() {
        let check = |names: &[&str], script: &str, new: &[&str], expected: &str| {
            let (short, script) = shorten(&module(names), script).expect("a module");
            assert_eq!(script, expected);
            assert_eq!(short, module(new), "{expected}");
        };
        let script = "const a = {\n    x_1f: function(b) {},\n    y_2e: function() {},\n};";
        let short = "const a = {\n    0: function(b) {},\n    1: function() {},\n};";
        check(&["x_1f", "y_2e"], script, &["0", "1"], short);
        check(&["x_1f"], " x_1f: x_1f,", &["x_1f"], " x_1f: x_1f,");
        let twice = " x_1f: function() { x_1f(); },";
        check(&["x_1f"], twice, &["x_1f"], twice);
        check(&["memory"], "", &["memory"], "");
    }

    #[test]
    fn what_is_no_module_is_refused() {
        assert!(shorten(b"no module", "").is_err());
    }
}
