//! Work between two nodes that has not ended well.

use std::fmt;

/// Why it has not, and why the other end was out of reach then, if it was and that is known.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken<E> {
    pub why: E,
    pub trouble: Option<String>,
}

impl<E> From<E> for Broken<E> {
    fn from(why: E) -> Broken<E> {
        Broken { why, trouble: None }
    }
}

impl<E: fmt::Display> fmt::Display for Broken<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.why)?;
        self.trouble.as_ref().map_or(Ok(()), |trouble| write!(f, "; {trouble}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_that_work_has_failed_reads_why_the_other_end_was_out_of_reach() {
        let trouble = Some("listener.0 (10.0.0.1:20123) cannot be reached: it does not answer".to_string());
        let broken = Broken { why: "the stream: timed out", trouble };
        let text = "the stream: timed out; listener.0 (10.0.0.1:20123) cannot be reached: it does not answer";
        assert_eq!(broken.to_string(), text);
        assert_eq!(Broken::from("the stream: timed out").to_string(), "the stream: timed out");
    }
}
