//! Makes one of functions that do the same.
//!
//! Generic code of several crates is often compiled to the same instructions, and the linker for
//! WebAssembly does not join such functions. Every call, table and export is pointed at the first
//! of them, and the others are left out. Then functions that called different ones of them may be
//! equal, too.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{CodeSection, FunctionSection, Module};
use wasmparser::{CodeSectionReader, FunctionSectionReader, Parser, Payload, TypeRef};

/// What can be wrong with a module.
pub type BadModule = Error;

/// A module in which no two functions are equal.
///
/// # Errors
/// [`BadModule`] if it is no module.
pub fn fold(module: &[u8]) -> Result<Vec<u8>, BadModule> {
    let mut folded = module.to_vec();
    while let Some(mut fold) = Fold::of(&folded)? {
        let mut smaller = Module::new();
        fold.parse_core_module(&mut smaller, Parser::new(0), &folded)?;
        folded = smaller.finish();
    }
    Ok(folded)
}

/// Which functions are left out.
struct Fold {
    /// For each function, with the imported ones: its number in the new module.
    number: Vec<u32>,
    /// For each function of the module itself: whether it stays.
    stays: Vec<bool>,
}

impl Fold {
    /// The functions that equal an earlier one: they have its type, locals and instructions. `None`
    /// if there are none.
    fn of(module: &[u8]) -> Result<Option<Fold>, BadModule> {
        let (mut imported, mut types, mut bodies) = (0, Vec::new(), Vec::new());
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        imported += u32::from(matches!(import?.ty, TypeRef::Func(_)));
                    }
                }
                Payload::FunctionSection(section) => {
                    types = section.into_iter().collect::<Result<_, _>>()?;
                }
                Payload::CodeSectionEntry(body) => bodies.push(body.as_bytes()),
                _ => {}
            }
        }
        let mut number: Vec<u32> = (0..imported).collect();
        let (mut known, mut stays) = (HashMap::new(), Vec::new());
        let mut next = imported;
        for function in types.iter().zip(&bodies) {
            let seen = known.entry(function);
            stays.push(matches!(seen, Entry::Vacant(_)));
            number.push(*seen.or_insert(next));
            next += u32::from(stays[stays.len() - 1]);
        }
        let is_smaller = stays.contains(&false);
        Ok(is_smaller.then_some(Fold { number, stays }))
    }
}

impl Reencode for Fold {
    type Error = std::convert::Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32, BadModule> {
        Ok(self.number[function as usize])
    }

    fn parse_function_section(
        &mut self,
        functions: &mut FunctionSection,
        section: FunctionSectionReader<'_>,
    ) -> Result<(), BadModule> {
        for (at, function) in section.into_iter().enumerate() {
            if self.stays[at] {
                functions.function(self.type_index(function?)?);
            }
        }
        Ok(())
    }

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: CodeSectionReader<'_>,
    ) -> Result<(), BadModule> {
        for (at, body) in section.into_iter().enumerate() {
            if self.stays[at] {
                self.parse_function_body(code, body?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_encoder::{
        ElementSection, Elements, EntityType, ExportKind, ExportSection, Function, ImportSection,
        TypeSection, ValType,
    };
    use wasmparser::{ElementItems, Operator};

    /// Function 0 is imported. 1 and 2 are equal; 3 and 4 differ in which of these they call; 5 is
    /// as short as 1, but of another type.
    fn module() -> Vec<u8> {
        let mut types = TypeSection::new();
        types.ty().function([], [ValType::I32]);
        types.ty().function([ValType::I32], [ValType::I32]);
        let mut imports = ImportSection::new();
        imports.import("env", "zero", EntityType::Function(0));
        let (mut functions, mut code) = (FunctionSection::new(), CodeSection::new());
        let mut add = |ty: u32, calls: Option<u32>| {
            functions.function(ty);
            let mut body = Function::new([]);
            match calls {
                Some(other) => body.instructions().call(other).end(),
                None => body.instructions().i32_const(7).end(),
            };
            code.function(&body);
        };
        for (ty, calls) in [(0, None), (0, None), (0, Some(1)), (0, Some(2)), (1, None)] {
            add(ty, calls);
        }
        let mut exports = ExportSection::new();
        exports.export("first", ExportKind::Func, 3);
        exports.export("second", ExportKind::Func, 4);
        exports.export("other", ExportKind::Func, 5);
        let mut elements = ElementSection::new();
        elements.declared(Elements::Functions([2, 0, 5][..].into()));
        let mut module = Module::new();
        module.section(&types).section(&imports).section(&functions);
        module.section(&exports).section(&elements).section(&code);
        module.finish()
    }

    #[test]
    fn equal_functions_become_one_and_so_do_those_that_call_them() {
        let folded = fold(&module()).expect("a module");
        let (mut exported, mut listed, mut called) = (Vec::new(), Vec::new(), Vec::new());
        for payload in Parser::new(0).parse_all(&folded) {
            match payload.expect("a section") {
                Payload::ExportSection(section) => {
                    exported.extend(section.into_iter().map(|export| export.unwrap().index));
                }
                Payload::ElementSection(section) => {
                    for element in section {
                        let ElementItems::Functions(items) = element.unwrap().items else {
                            panic!("functions are listed");
                        };
                        listed.extend(items.into_iter().map(Result::unwrap));
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    let first = body.get_operators_reader().unwrap().read().unwrap();
                    called.push(match first {
                        Operator::Call { function_index } => Some(function_index),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        assert_eq!(called, [None, Some(1), None]);
        assert_eq!(exported, [2, 2, 3]);
        assert_eq!(listed, [1, 0, 3]);
        assert_eq!(
            fold(&folded).expect("a module"),
            folded,
            "nothing is left to fold"
        );
    }

    #[test]
    fn what_is_no_module_is_refused() {
        assert!(fold(b"no module").is_err());
    }
}
