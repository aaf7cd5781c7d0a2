//! Whole numbers on the command line.

/// A whole number of an option or an argument.
///
/// # Errors
/// It is none, or too large: what it can be.
pub fn whole(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("it must be a whole number from 0 to {}", u64::MAX))
}
