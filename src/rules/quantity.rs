//! Kubernetes' quantities (`500m`, `64Gi`, `12e6`), exactly.
//!
//! The crates for it come with a parser generator and a decimal type, for arithmetic that nothing here needs. See
//! `k8s.io/apimachinery/pkg/api/resource` for the format.

/// A quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quantity {
    /// In billionths, the finest that Kubernetes keeps: what is finer is rounded away from zero.
    nanos: i128,
}

/// The power of ten of [`Quantity::nanos`].
const NANOS: i32 = 9;

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0 };

    /// Reads a quantity. `None` if it is none, or has more digits than the API server, which cuts all at 2^63, ever writes.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let mut digits: i128 = 0;
        for digit in whole.chars().chain(fraction.chars()) {
            // A second point is no digit.
            let digit = i128::from(digit.to_digit(10)?);
            digits = digits.checked_mul(10)?.checked_add(digit)?;
        }
        let (binary, decimal) = scale(suffix)?;
        let decimal = decimal
            .checked_add(NANOS)?
            .checked_sub(fraction.len().try_into().ok()?)?;
        let digits = digits.checked_mul(1 << binary)?;
        let nanos = match 10_i128.checked_pow(decimal.unsigned_abs()) {
            _ if digits == 0 => 0,
            Some(power) if decimal >= 0 => digits.checked_mul(power)?,
            Some(power) => digits / power + i128::from(digits % power != 0),
            None if decimal >= 0 => return None,
            None => 1,
        };
        Some(Self {
            nanos: if negative { -nanos } else { nanos },
        })
    }

    /// Whether it is more than so many percent of the whole.
    pub fn is_over(self, percent: u32, whole: Self) -> bool {
        self.nanos.saturating_mul(100) > whole.nanos.saturating_mul(percent.into())
    }

    /// How many percent of the whole it is, rounded down; zero of nothing.
    pub fn percent_of(self, whole: Self) -> i128 {
        self.nanos
            .saturating_mul(100)
            .checked_div_euclid(whole.nanos)
            .unwrap_or_default()
    }
}

/// The powers of 2 and of 10 that a suffix stands for.
fn scale(suffix: &str) -> Option<(u32, i32)> {
    Some(match suffix {
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "" => (0, 0),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        _ => (0, suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nanos(text: &str) -> Option<i128> {
        Quantity::parse(text).map(|quantity| quantity.nanos)
    }

    #[test]
    fn quantities_are_read_exactly() {
        for (text, expected) in [
            ("0", 0),
            ("1", 1_000_000_000),
            ("+1", 1_000_000_000),
            ("-1", -1_000_000_000),
            ("007", 7_000_000_000),
            ("1n", 1),
            ("1u", 1_000),
            ("250m", 250_000_000),
            ("0.1", 100_000_000),
            (".5", 500_000_000),
            ("5.", 5_000_000_000),
            ("1k", 1_000_000_000_000),
            ("1.5M", 1_500_000_000_000_000),
            ("2G", 2_000_000_000_000_000_000),
            ("1T", 1_000_000_000_000_000_000_000),
            ("1P", 1_000_000_000_000_000_000_000_000),
            ("8E", 8_000_000_000_000_000_000_000_000_000),
            ("1Ki", 1_024_000_000_000),
            ("1Mi", 1_048_576_000_000_000),
            ("1.5Gi", 1_610_612_736_000_000_000),
            ("1Ti", 1_099_511_627_776_000_000_000),
            ("1Pi", 1_125_899_906_842_624_000_000_000),
            ("7Ei", 8_070_450_532_247_928_832_000_000_000),
            ("12e6", 12_000_000_000_000_000),
            ("12E6", 12_000_000_000_000_000),
            ("12e+6", 12_000_000_000_000_000),
            ("12e-3", 12_000_000),
            ("0e99", 0),
        ] {
            assert_eq!(nanos(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_finer_than_a_nano_is_rounded_away_from_zero() {
        for (text, expected) in [
            ("0.1n", 1),
            ("-0.1n", -1),
            ("1.000000001n", 2),
            ("1e-99", 1),
            ("1e-2147483648", 1),
        ] {
            assert_eq!(nanos(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_not_guessed() {
        for text in [
            "",
            "-",
            ".",
            "Gi",
            "1gi",
            "1KI",
            "1K",
            "1 Gi",
            " 1",
            "1 ",
            "1..2",
            "1.2.3",
            "+-1",
            "1e",
            "1e2.5",
            "1eG",
            "0x10",
            "٣",
            "1e99",
            "1e2147483647",
            "99999999999999999999999999999999999999999",
        ] {
            assert_eq!(nanos(text), None, "{text}");
        }
    }

    #[test]
    fn shares_are_exact() {
        let is_over = |used: &str, hard: &str| {
            let hard = Quantity::parse(hard).unwrap();
            Quantity::parse(used).unwrap().is_over(90, hard)
        };
        assert!(!is_over("9", "10"));
        assert!(is_over("9001m", "10"));
        assert!(!is_over("57.6Gi", "64Gi"));
        assert!(is_over("61847529063", "64Gi"));
        let percent = |used: &str, hard: &str| {
            let hard = Quantity::parse(hard).unwrap();
            Quantity::parse(used).unwrap().percent_of(hard)
        };
        assert_eq!(percent("999m", "1"), 99);
        assert_eq!(percent("3", "2"), 150);
        assert_eq!(percent("1", "0"), 0);
    }

    proptest! {
        #[test]
        fn a_whole_number_times_its_suffix_is_that_number(number in any::<i32>(), power in 0_u32..=6) {
            let binary = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power as usize];
            let decimal = ["", "k", "M", "G", "T", "P", "E"][power as usize];
            let unit = i128::from(number) * 1_000_000_000;
            prop_assert_eq!(nanos(&format!("{number}{binary}")), Some(unit * 1024_i128.pow(power)));
            prop_assert_eq!(nanos(&format!("{number}{decimal}")), Some(unit * 1000_i128.pow(power)));
        }

        #[test]
        fn a_point_that_moves_with_the_exponent_changes_nothing(number in 0_u64.., places in 0_usize..=9) {
            let text = format!("{number:010}");
            let (whole, fraction) = text.split_at(text.len() - places);
            prop_assert_eq!(
                nanos(&format!("{whole}.{fraction}e{places}")),
                nanos(&number.to_string())
            );
            prop_assert_eq!(
                nanos(&format!("{whole}.{fraction}")),
                nanos(&format!("{number}e-{places}"))
            );
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-+0-9.eEKMGTPikmun]{0,60}|.{0,20}") {
            let _ = Quantity::parse(&text);
        }
    }
}
