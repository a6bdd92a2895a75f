//! What users write: Kubernetes quantities (`500m`, `8Gi`), read only as far as the rules need to compare them.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

const NANO: i128 = 1_000_000_000;

/// The quantity in billionths, or nothing where the text is no quantity. Beyond what fits it saturates: a comparison stays right.
pub(crate) fn nano(quantity: &Quantity) -> Option<i128> {
    let text = quantity.0.as_str();
    let split =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(split)?;
    decimal(number, multiplier(suffix)?)
}

/// One text for all ways to write an amount: what two specs are compared by. What is no quantity stays as it was written.
#[must_use]
pub fn normalised(quantity: &Quantity) -> String {
    nano(quantity).map_or_else(|| quantity.0.clone(), |nano| format!("{nano}n"))
}

fn multiplier(suffix: &str) -> Option<i128> {
    let power =
        |base: i128, exponent: u32| base.checked_pow(exponent).and_then(|value| value.checked_mul(NANO));
    match suffix {
        "n" => Some(1),
        "u" => Some(1_000),
        "m" => Some(1_000_000),
        "" => Some(NANO),
        "k" => power(1_000, 1),
        "M" => power(1_000, 2),
        "G" => power(1_000, 3),
        "T" => power(1_000, 4),
        "P" => power(1_000, 5),
        "E" => power(1_000, 6),
        "Ki" => power(1_024, 1),
        "Mi" => power(1_024, 2),
        "Gi" => power(1_024, 3),
        "Ti" => power(1_024, 4),
        "Pi" => power(1_024, 5),
        "Ei" => power(1_024, 6),
        _ => exponent(suffix),
    }
}

fn exponent(suffix: &str) -> Option<i128> {
    let digits = suffix.strip_prefix(['e', 'E'])?;
    let exponent: i32 = digits.parse().ok()?;
    let exponent = exponent.checked_add(9)?;
    // Below a billionth all is nothing, and above 10^18 no resource exists: both ends only have to compare right.
    Some(10_i128.pow(u32::try_from(exponent.clamp(0, 27)).ok()?))
}

fn decimal(number: &str, multiplier: i128) -> Option<i128> {
    let (negative, digits) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let numeric = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !numeric(whole) || !numeric(fraction) {
        return None;
    }
    let mut value = 0_i128;
    for digit in whole.bytes() {
        value = value.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
    }
    let mut value = value.saturating_mul(multiplier);
    let mut place = multiplier;
    for digit in fraction.bytes() {
        place /= 10;
        value = value.saturating_add(place.saturating_mul(i128::from(digit - b'0')));
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<i128> {
        nano(&Quantity(text.to_owned()))
    }

    #[test]
    fn quantities_compare_across_their_suffixes() {
        for (smaller, larger) in [
            ("499m", "0.5"),
            ("1", "1001m"),
            ("1000Mi", "1Gi"),
            ("1G", "1Gi"),
            ("-1", "0"),
            ("0", "1n"),
            ("1e3", "1001"),
            ("1Ei", "2E"),
            ("1.5Gi", "1537Mi"),
            ("1Ei", "999999999999999999999999999999999999999Ei"),
        ] {
            assert!(of(smaller) < of(larger) && of(smaller).is_some(), "{smaller} < {larger}");
        }
        assert_eq!(of("1024Ki"), of("1Mi"));
        assert_eq!(of(".5"), of("500m"));
    }

    #[test]
    fn other_text_is_no_quantity() {
        for text in ["", "Gi", "1 Gi", "1gi", "--1", "1.2.3", "eleven", "1e", "0x10", "1GiB"] {
            assert_eq!(of(text), None, "{text:?}");
        }
    }
}
