//! What the cases came to.

use crate::departures::Departure;
use std::fmt;
use weft_verbs::conformance::Verdict;

/// How a case ended, beside what is known of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Passed,
    /// It passed, and is listed as a departure.
    PassedThough,
    /// The device cannot be put to this test.
    Lacking,
    /// It failed in the way that is listed.
    Departed,
    /// It failed, or failed in another way than the one that is listed.
    Failed,
}

/// A verdict beside the departure that is listed, with what to say of it.
pub fn judge(verdict: &Verdict, departure: Option<&Departure>) -> (Found, String) {
    match (verdict, departure) {
        (Verdict::Passed, None) => (Found::Passed, "passed".to_string()),
        (Verdict::Passed, Some(_)) => {
            (Found::PassedThough, "passed, though it is listed as a departure".to_string())
        }
        (Verdict::Lacking { .. }, _) => (Found::Lacking, verdict.to_string()),
        (Verdict::Failed(_), None) => (Found::Failed, verdict.to_string()),
        (Verdict::Failed(failure), Some(listed)) => {
            let text = failure.to_string();
            match listed.shows.iter().any(|part| text.contains(part)) {
                true => (Found::Departed, format!("departs: {} ({text})", listed.why)),
                false => (Found::Failed, format!("{verdict}; a departure is listed that looks otherwise")),
            }
        }
    }
}

/// How many cases ended how.
#[derive(Default)]
pub struct Tally {
    passed: u32,
    passed_though: u32,
    second_try: u32,
    lacking: u32,
    departed: u32,
    /// Cases that failed and did not pass the second time either.
    pub failed: u32,
    /// Cases for which there was no time.
    pub not_run: Vec<String>,
}

impl Tally {
    /// Counts a case; a second try takes the place of the first, which failed.
    pub fn count(&mut self, found: Found, second: bool) {
        self.failed -= u32::from(second);
        *match found {
            Found::Passed | Found::PassedThough if second => &mut self.second_try,
            Found::Passed => &mut self.passed,
            Found::PassedThough => &mut self.passed_though,
            Found::Lacking => &mut self.lacking,
            Found::Departed => &mut self.departed,
            Found::Failed => &mut self.failed,
        } += 1;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in &self.not_run {
            writeln!(f, "NOT RUN, the time was over: {case}")?;
        }
        let Tally { passed, passed_though, second_try, lacking, departed, failed, not_run } = self;
        write!(
            f,
            "{passed} passed, {second_try} at the second try, {passed_though} though listed as departures; {lacking} \
             lacking, {departed} departures of the device, {failed} failed, {} not run",
            not_run.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_verbs::conformance::Failure;

    const LISTED: Departure = Departure { group: "g", case: "c", shows: &["hums"], why: "it hums" };

    fn failed(text: &str) -> Verdict {
        Verdict::Failed(Failure::new(text))
    }

    #[test]
    fn a_listed_departure_hides_no_other_failure() {
        assert_eq!(judge(&failed("the device hums"), Some(&LISTED)).0, Found::Departed);
        assert_eq!(judge(&failed("the device bites"), Some(&LISTED)).0, Found::Failed);
        assert_eq!(judge(&failed("the device hums"), None).0, Found::Failed);
        assert_eq!(judge(&Verdict::Passed, Some(&LISTED)).0, Found::PassedThough);
    }

    #[test]
    fn a_second_try_counts_once_and_is_told() {
        let mut tally = Tally::default();
        for found in [Found::Passed, Found::Failed, Found::Failed] {
            tally.count(found, false);
        }
        tally.count(Found::Passed, true);
        tally.count(Found::Failed, true);
        assert_eq!((tally.passed, tally.second_try, tally.failed), (1, 1, 1));
        assert!(tally.to_string().starts_with("1 passed, 1 at the second try,"), "{tally}");
    }
}
