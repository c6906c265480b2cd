//! Whole numbers and sizes on the command line. An error says in words which ones are allowed.

use std::fmt::Display;
use std::str::FromStr;
use trace::units::Bytes;

/// Reads a size of at least so much.
pub fn at_least(least: Bytes) -> impl Fn(&str) -> Result<Bytes, String> + Clone + Send + Sync {
    move |text| match text.parse::<Bytes>() {
        Ok(size) if size < least => Err(format!("give at least {least}")),
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_is_too_small_is_refused_with_the_least() {
        let read = at_least(Bytes::mib(64));
        assert_eq!(read("64MiB"), Ok(Bytes::mib(64)));
        assert_eq!(read("0"), Err("give at least 64.0 MiB".to_owned()));
        assert!(read("x").is_err());
    }
}
