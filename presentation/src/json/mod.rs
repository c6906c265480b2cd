//! Reads the JSON of the server's answers.
//!
//! `serde_json` reads all JSON, and for each type the page held code for what no answer has: a
//! structure that is written as an array, a float where a text is wanted, the line and the column
//! of each error. This reads what the server writes, with most of its code outside of what is
//! generic: the page is 20 KB smaller on the wire. The browser's own parser is no way out: it loses
//! digits of integers above 2^53. It does read floats exactly ([`api::decimal`]).

mod reader;
mod shapes;
#[cfg(test)]
mod tests;

use reader::Reader;
use serde::de::{self, DeserializeOwned, Expected, Unexpected};
use std::fmt;

/// Reads an answer.
///
/// # Errors
/// If it is not JSON, or not of this type.
pub fn read<T: DeserializeOwned>(json: &str) -> Result<T, Misread> {
    let mut reader = Reader::new(json);
    let value = T::deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Why a text was not read.
#[derive(Debug)]
pub struct Misread(Box<Why>);

#[derive(Debug)]
struct Why(String);

impl fmt::Display for Misread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.0)
    }
}

impl std::error::Error for Misread {}

impl Misread {
    #[cold]
    fn new(why: String) -> Self {
        Self(Box::new(Why(why)))
    }

    #[cold]
    fn kind() -> Self {
        Self::new("a value of another kind was expected".to_owned())
    }
}

// What was expected is left out: it would bring the names of all types into the page.
impl de::Error for Misread {
    #[cold]
    fn custom<T: fmt::Display>(why: T) -> Self {
        Self::new(why.to_string())
    }

    #[inline]
    fn invalid_type(_: Unexpected<'_>, _: &dyn Expected) -> Self {
        Self::kind()
    }

    #[inline]
    fn invalid_value(_: Unexpected<'_>, _: &dyn Expected) -> Self {
        Self::kind()
    }

    #[inline]
    fn invalid_length(_: usize, _: &dyn Expected) -> Self {
        Self::kind()
    }

    #[inline]
    fn unknown_variant(variant: &str, _: &'static [&'static str]) -> Self {
        Self::new(["unknown variant ", variant].concat())
    }
}
