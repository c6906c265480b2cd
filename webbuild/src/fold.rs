//! Makes one of functions that do the same, and puts those side by side that do nearly the same.
//!
//! Generic code of several crates is often compiled to the same instructions, and the linker for
//! WebAssembly does not join such functions. Every call, table and export is pointed at one of
//! them, and the others are left out. Then functions that called different ones of them may be
//! equal, too.
//!
//! Functions that remain often differ in a few places only, and packing takes less for what is like
//! its neighbour. So they are put in the order that [`alike`] gives them: the page is 9 KB smaller
//! than with functions in the order of their bytes, which took a twentieth away.

use crate::alike;
use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{CodeSection, FunctionSection, Module};
use wasmparser::{
    CodeSectionReader, FunctionBody, FunctionSectionReader, Parser, Payload, TypeRef,
};

/// What can be wrong with a module.
pub type BadModule = Error;

/// A module in which no two functions are equal, and those that are alike stand side by side.
///
/// # Errors
/// [`BadModule`] if it is no module.
pub fn fold(module: &[u8]) -> Result<Vec<u8>, BadModule> {
    let mut folded = module.to_vec();
    loop {
        let functions = Functions::of(&folded)?;
        let fold = functions.without_equals();
        if fold.order.len() == functions.own.len() {
            let fold = functions.in_order(alike::order(&functions.own)?);
            return fold.applied(&folded);
        }
        folded = fold.applied(&folded)?;
    }
}

/// The functions of a module.
struct Functions<'a> {
    /// How many are imported: these come first.
    imported: usize,
    /// The types and bodies of the others.
    own: Vec<(u32, FunctionBody<'a>)>,
}

impl<'a> Functions<'a> {
    fn of(module: &'a [u8]) -> Result<Functions<'a>, BadModule> {
        let (mut imported, mut types, mut bodies) = (0, Vec::new(), Vec::new());
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        imported += usize::from(matches!(import?.ty, TypeRef::Func(_)));
                    }
                }
                Payload::FunctionSection(section) => {
                    types = section.into_iter().collect::<Result<_, _>>()?;
                }
                Payload::CodeSectionEntry(body) => bodies.push(body),
                _ => {}
            }
        }
        let own = types.into_iter().zip(bodies).collect();
        Ok(Functions { imported, own })
    }

    /// Of functions that are equal, one stays: they have the same type, locals and instructions.
    fn without_equals(&self) -> Fold {
        let key = |at: usize| (self.own[at].0, self.own[at].1.as_bytes());
        let mut sorted: Vec<usize> = (0..self.own.len()).collect();
        sorted.sort_by_key(|&at| key(at));
        let mut fold = self.none_yet();
        for at in sorted {
            let equals = |&last: &usize| key(last) == key(at);
            if !fold.order.last().is_some_and(equals) {
                fold.order.push(at);
            }
            fold.number[self.imported + at] = (self.imported + fold.order.len() - 1) as u32;
        }
        fold
    }

    /// All of them, in this order.
    fn in_order(&self, order: Vec<usize>) -> Fold {
        let mut fold = self.none_yet();
        for (nth, &at) in order.iter().enumerate() {
            fold.number[self.imported + at] = (self.imported + nth) as u32;
        }
        Fold { order, ..fold }
    }

    fn none_yet(&self) -> Fold {
        let mut number: Vec<u32> = (0..self.imported as u32).collect();
        number.resize(self.imported + self.own.len(), 0);
        let order = Vec::new();
        Fold { number, order }
    }
}

/// Which functions stay, and where.
struct Fold {
    /// For each function, with the imported ones: its number in the new module.
    number: Vec<u32>,
    /// The functions of the module itself that stay, in their new order.
    order: Vec<usize>,
}

impl Fold {
    fn applied(mut self, module: &[u8]) -> Result<Vec<u8>, BadModule> {
        let mut folded = Module::new();
        self.parse_core_module(&mut folded, Parser::new(0), module)?;
        Ok(folded.finish())
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
    fn equal_functions_become_one_and_those_that_remain_are_put_in_order() {
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
            "nothing is left to fold or to move"
        );
    }

    #[test]
    fn what_is_no_module_is_refused() {
        assert!(fold(b"no module").is_err());
    }
}
