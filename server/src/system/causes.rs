//! An error in one line, with what caused it.

use std::error::Error;

/// The words of an error and of each of its causes.
pub fn in_one_line(error: &(dyn Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    let chain: Vec<String> = chain.map(ToString::to_string).collect();
    chain.join(": ")
}
