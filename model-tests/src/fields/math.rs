//! Logarithm and exponential from additions, multiplications and divisions only.
//!
//! IEEE 754 fixes the results of those to the bit. A library's `ln`, `exp` and `pow` may differ in the last
//! place from machine to machine, and a run that is drawn with them would too.

/// The natural logarithm of a number from 1, by halving to [1, 2) and the series of artanh.
pub(crate) fn ln(mut x: f64) -> f64 {
    let mut halvings = 0.0;
    while x >= 2.0 {
        x /= 2.0;
        halvings += 1.0;
    }
    let z = (x - 1.0) / (x + 1.0);
    let (mut term, mut sum) = (z, 0.0);
    for k in 0..32 {
        sum += term / f64::from(2 * k + 1);
        term *= z * z;
    }
    2.0 * sum + halvings * std::f64::consts::LN_2
}

/// The exponential of a number from -100 to 0, by its series at a small part of the number and squaring.
pub(crate) fn exp(x: f64) -> f64 {
    const SQUARINGS: u32 = 8;
    let small = x / f64::from(1 << SQUARINGS);
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..24 {
        term *= small / f64::from(k);
        sum += term;
    }
    (0..SQUARINGS).fold(sum, |power, _| power * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_agree_with_a_library_to_twelve_digits() {
        for x in [1.0, 1.5, 2.0, 3.0, 10.0, 64.0, 1e6, 9e15] {
            assert!((ln(x) - x.ln()).abs() < 1e-12 * (1.0 + x.ln()), "ln {x}");
        }
        for x in [0.0, -1e-9, -0.5, -1.0, -10.0, -69.0, -100.0] {
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-12, "exp {x}: {} {}", exp(x), x.exp());
        }
    }
}
