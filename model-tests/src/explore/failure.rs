//! The file that a failure leaves: all that it takes to see it again.

use super::choices::Choices;
use super::options::Options;
use super::run::Run;
use super::size::Size;
use super::system::Violation;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use weft_sim::explore::{FaultSet, Outcome};

/// A failure, as a file keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The version of Weft that found it. Events may be called otherwise in another one.
    pub weft: String,
    /// The world.
    pub world: String,
    /// The most events of a run.
    pub max_depth: u32,
    /// The kinds of faults that the run might have had.
    #[serde(default = "any", with = "names")]
    pub kinds: FaultSet,
    /// The digest of the run's log.
    pub digest: String,
    /// The choices that lead to it; where none of them is possible, the run goes on quietly.
    pub choices: Choices,
    /// The promise that is broken.
    pub violation: Violation,
    /// The world's whole size.
    #[serde(default)]
    pub params: Size,
    /// How it was found, which a replay has no need of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
}

/// How a failure was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The reduction of an exploration, or the strategy of a walk.
    pub by: String,
    /// The most faults in one execution.
    pub faults: u32,
    /// The only oracle whose violations counted, if not all did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oracle: Option<String>,
    /// The seed, if a seed led to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The size of the world that it was found in, if that was larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Size>,
}

/// Why a text is no failure that can be seen again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FailureError {
    /// It is none.
    #[error("this is no failure that weft has written: {0}")]
    Wrong(String),
    /// It is one, and another version has to replay it.
    #[error("weft {0} has written it in a form of its own: replay it with that, or find the failure again")]
    OtherVersion(String),
}

impl Failure {
    /// The version of this code.
    pub const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    /// The failure of a run that these choices lead to in a world of this size.
    pub fn new(world: &str, size: Size, choices: Choices, run: &Run, options: &Options) -> Option<Failure> {
        Some(Failure {
            weft: Failure::VERSION.to_string(),
            world: world.to_string(),
            max_depth: options.livelock,
            kinds: run.kinds,
            digest: run.digest(),
            choices,
            violation: run.violation.clone()?,
            params: size,
            found: None,
        })
    }

    /// The options that its run depends on; see [`replay()`](super::replay).
    pub fn options(&self) -> Options {
        let options = Options { livelock: self.max_depth, kinds: Some(self.kinds), ..Options::default() };
        options.to_repeat(&self.violation)
    }

    /// Its text, in TOML.
    ///
    /// # Errors
    ///
    /// It does not fit into TOML, which cannot be.
    pub fn text(&self) -> Result<String, FailureError> {
        toml::to_string(self).map_err(|error| FailureError::Wrong(error.to_string()))
    }

    /// Reads a text.
    ///
    /// # Errors
    ///
    /// It is no failure's text, or that of a version whose files this one does not know.
    pub fn parse(text: &str) -> Result<Failure, FailureError> {
        /// What every version's files have.
        #[derive(Deserialize)]
        struct AnyVersion {
            weft: String,
        }
        let read: Failure = toml::from_str(text).map_err(|error| match toml::from_str(text) {
            Ok(AnyVersion { weft }) if weft != Failure::VERSION => FailureError::OtherVersion(weft),
            _ => FailureError::Wrong(error.message().to_string()),
        })?;
        match read.digest.len() == 16 && read.digest.bytes().all(|c| c.is_ascii_hexdigit()) {
            true => Ok(read),
            false => {
                let why = format!("digest = {:?}: sixteen hexadecimal digits", read.digest);
                Err(FailureError::Wrong(why))
            }
        }
    }
}

/// What files say that do not name kinds: they were written before kinds were kept.
fn any() -> FaultSet {
    FaultSet::ALL
}

/// Kinds of faults by their names.
mod names {
    use super::{FaultSet, Outcome};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(kinds: &FaultSet, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(kinds.iter().map(Outcome::name))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<FaultSet, D::Error> {
        let kind = |name: &String| {
            let fault = Outcome::from_name(name).filter(|outcome| outcome.is_fault());
            fault.ok_or_else(|| D::Error::custom(format!("'{name}' is no kind of fault")))
        };
        Vec::<String>::deserialize(from)?.iter().map(kind).collect()
    }
}
