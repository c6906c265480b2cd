//! Makes one of functions that do the same, and puts those side by side that do nearly the same.
//!
//! Generic code of several crates is often compiled to the same instructions, and the linker for
//! WebAssembly does not join such functions. Every call, table and export is pointed at one of
//! them, and the others are left out. Then functions that called different ones of them may be
//! equal, too.
//!
//! Functions that remain often differ in a few places only, and packing takes less for what is like
//! its neighbour. So they stand in the order of their types and bytes: the page is a twentieth
//! smaller.

use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{CodeSection, FunctionSection, Module};
use wasmparser::{CodeSectionReader, FunctionSectionReader, Parser, Payload, TypeRef};

/// What can be wrong with a module.
pub type BadModule = Error;

/// A module in which no two functions are equal, in the order of their types and bytes.
///
/// # Errors
/// [`BadModule`] if it is no module.
pub fn fold(module: &[u8]) -> Result<Vec<u8>, BadModule> {
    let mut folded = module.to_vec();
    loop {
        let mut fold = Fold::of(&folded)?;
        let mut smaller = Module::new();
        fold.parse_core_module(&mut smaller, Parser::new(0), &folded)?;
        folded = smaller.finish();
        if !fold.leaves_out {
            return Ok(folded);
        }
    }
}

/// Which functions stay, and where.
struct Fold {
    /// For each function, with the imported ones: its number in the new module.
    number: Vec<u32>,
    /// The functions of the module itself that stay, in their new order.
    order: Vec<usize>,
    /// Whether some do not stay.
    leaves_out: bool,
}

impl Fold {
    /// Of functions that are equal, one stays: they have the same type, locals and instructions.
    fn of(module: &[u8]) -> Result<Fold, BadModule> {
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
        let functions: Vec<(u32, &[u8])> = types.into_iter().zip(bodies).collect();
        let mut sorted: Vec<usize> = (0..functions.len()).collect();
        sorted.sort_by_key(|&at| functions[at]);
        let mut number: Vec<u32> = (0..imported).collect();
        let imported = number.len();
        number.resize(imported + functions.len(), 0);
        let mut order: Vec<usize> = Vec::new();
        for at in sorted {
            let equals = |&last: &usize| functions[last] == functions[at];
            if !order.last().is_some_and(equals) {
                order.push(at);
            }
            number[imported + at] = (imported + order.len() - 1) as u32;
        }
        let leaves_out = order.len() < functions.len();
        Ok(Fold {
            number,
            order,
            leaves_out,
        })
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
        let types = section.into_iter().collect::<Result<Vec<_>, _>>()?;
        for at in self.order.clone() {
            functions.function(self.type_index(types[at])?);
        }
        Ok(())
    }

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: CodeSectionReader<'_>,
    ) -> Result<(), BadModule> {
        let bodies = section.into_iter().collect::<Result<Vec<_>, _>>()?;
        for at in self.order.clone() {
            self.parse_function_body(code, bodies[at].clone())?;
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
    fn equal_functions_become_one_and_those_that_remain_are_sorted() {
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
        // A call sorts before a constant, and type 0 before type 1.
        assert_eq!(called, [Some(2), None, None]);
        assert_eq!(exported, [1, 1, 3]);
        assert_eq!(listed, [2, 0, 3]);
        assert_eq!(
            fold(&folded).expect("a module"),
            folded,
            "nothing is left to fold or to sort"
        );
    }

    #[test]
    fn what_is_no_module_is_refused() {
        assert!(fold(b"no module").is_err());
    }
}
