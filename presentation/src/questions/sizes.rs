//! Sizes that people type, and sizes that are written into fields for them.

use trace::units::Bytes;

/// What a field says whose text is no size.
pub const NO_SIZE: &str = "Not a size: try 4096, 64 KiB or 1.5 GiB.";

/// Bytes of a size as people type it: `4096`, `64k`, `1.5 MiB`. `None` for an empty field.
pub fn size_of(text: &str) -> Result<Option<Bytes>, &'static str> {
    match text.trim() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| NO_SIZE),
    }
}

/// The shortest text that means exactly this size: fields are read again.
pub fn exact(size: Bytes) -> String {
    let whole = [(30, "GiB"), (20, "MiB"), (10, "KiB")].into_iter();
    let whole = whole.map(|(bits, unit)| format!("{} {unit}", size.get() >> bits));
    let texts = std::iter::once(size.to_string()).chain(whole);
    let mut exact = texts.filter(|text| text.parse() == Ok(size));
    let text = exact.next().filter(|_| size.get() >= 1024);
    text.unwrap_or_else(|| size.get().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_means_the_same_size() {
        let check = |bytes: u64, text: &str| {
            assert_eq!(exact(Bytes(bytes)), text);
            assert_eq!(size_of(text), Ok(Some(Bytes(bytes))));
        };
        check(7, "7");
        check(4096, "4.00 KiB");
        check(3 << 29, "1.50 GiB");
        check(2_113_929_216, "2016 MiB");
        check(2_113_929_217, "2113929217");
    }

    #[test]
    fn a_text_that_is_no_size_is_told_from_none() {
        assert_eq!(size_of("  "), Ok(None));
        assert_eq!(size_of("banana"), Err(NO_SIZE));
    }
}
