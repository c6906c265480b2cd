//! Whole numbers on the command line. An error says in words which ones are allowed.

use std::fmt::Display;
use std::str::FromStr;

/// Reads a whole number from `least` to `most`.
pub fn from_to<T>(
    least: T,
    most: T,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Copy + Send + Sync + 'static,
{
    move |text| match text.parse() {
        Ok(number) if least <= number && number <= most => Ok(number),
        _ => Err(format!("expected a whole number from {least} to {most}")),
    }
}
