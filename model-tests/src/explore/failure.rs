//! The file that a failure leaves: all that it takes to see it again.

use super::choices::Choices;
use super::run::Run;
use super::subject::Params;
use super::world::Violation;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A failure, as a file keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The version of Weft that found it. Events may be called otherwise in another one.
    pub weft: String,
    /// The world.
    pub world: String,
    /// The seed, if a seed led to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The most events of a run.
    pub max_depth: u32,
    /// The digest of the run's log.
    pub digest: String,
    /// The choices that lead to it; where none of them is possible, the run goes on quietly.
    pub choices: Choices,
    /// The promise that is broken.
    pub violation: Violation,
    /// The world's size.
    #[serde(default)]
    pub params: Params,
}

/// Why a text is no failure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("this is no failure that weft has written: {0}")]
pub struct FailureError(String);

impl Failure {
    /// The version of this code.
    pub const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    /// The failure of a run that these choices lead to.
    pub fn new(world: &str, params: &Params, choices: Choices, run: &Run, max_depth: u32) -> Option<Failure> {
        Some(Failure {
            weft: Failure::VERSION.to_string(),
            world: world.to_string(),
            seed: None,
            max_depth,
            digest: run.digest(),
            choices,
            violation: run.violation.clone()?,
            params: params.clone(),
        })
    }

    /// Its text, in TOML.
    ///
    /// # Errors
    ///
    /// It does not fit into TOML, which cannot be.
    pub fn text(&self) -> Result<String, FailureError> {
        let text = toml::to_string(self).map_err(|error| FailureError(error.to_string()))?;
        Ok(format!(
            "# See it again: weft replay FILE. As a diagram: weft replay FILE --diagram run.html\n{text}"
        ))
    }

    /// Reads a text.
    ///
    /// # Errors
    ///
    /// It is no failure's text.
    pub fn parse(text: &str) -> Result<Failure, FailureError> {
        toml::from_str(text).map_err(|error| FailureError(error.message().to_string()))
    }
}
