//! Decimal numbers, in addresses and in answers.

/// A decimal number as Rust prints it and people write it.
pub fn decimal(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (number, power) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let power = power.strip_prefix(['-', '+']).unwrap_or(power);
    let is_decimal = digits(whole)
        && digits(part)
        && !(whole.is_empty() && part.is_empty())
        && digits(power)
        && !power.is_empty();
    is_decimal.then(|| read(text)).filter(|x| x.is_finite())
}

/// The browser reads numbers as exactly as Rust does. Rust's tables for this would be a tenth of
/// all the data of the front end.
#[cfg(target_arch = "wasm32")]
fn read(text: &str) -> f64 {
    js_sys::parse_float(text)
}

#[cfg(not(target_arch = "wasm32"))]
fn read(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_what_rust_reads() {
        let check = |text: &str| assert_eq!(decimal(text), text.parse().ok(), "{text}");
        for text in [
            "0",
            "12",
            "12.",
            ".5",
            "-3.25",
            "+7",
            "1e3",
            "1E-7",
            "2.5e+10",
            "0.1",
            "",
            "-",
            ".",
            "e3",
            "1e",
            "1e+",
            "1_000",
            "0x10",
            " 1",
            "1 ",
            "--1",
            "1.2.3",
            "12345678901234567890",
        ] {
            check(text);
        }
        for more in ["inf", "-inf", "nan", "infinity", "1e999"] {
            assert_eq!(decimal(more), None, "{more}");
        }
    }
}
