//! Why a profile cannot be used: one clear line each.

use thiserror::Error;

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProfileError {
    /// No profile of that name comes with the program.
    #[error("there is no profile `{name}`; there are {known}")]
    NoSuchProfile {
        /// The name asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The file cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why not.
        error: String,
    },
    /// What is wrong, and in which file.
    #[error("{path}: {error}")]
    InFile {
        /// The file.
        path: String,
        /// What is wrong in it.
        error: Box<ProfileError>,
    },
    /// It is not TOML.
    #[error("line {line}: {message}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// A field that no profile has.
    #[error("`{name}` is no field of a profile")]
    UnknownField {
        /// The field.
        name: String,
    },
    /// A field that every profile must have.
    #[error("`{name}` is missing")]
    Missing {
        /// The field.
        name: String,
    },
    /// A field of the wrong form.
    #[error("`{name}` must be {want}")]
    Form {
        /// The field.
        name: String,
        /// What it must be.
        want: &'static str,
    },
    /// A figure in another unit than its name says.
    #[error("`{name}` is in {unit}, and must be in {want}")]
    Unit {
        /// The figure.
        name: String,
        /// The unit given.
        unit: String,
        /// The unit wanted.
        want: &'static str,
    },
    /// A figure out of bounds.
    #[error("`{name}` is {value} {unit}, and must be from {least} to {most}")]
    OutOfBounds {
        /// The figure.
        name: String,
        /// Its value.
        value: i64,
        /// Its unit.
        unit: &'static str,
        /// The least allowed.
        least: u64,
        /// The most allowed.
        most: u64,
    },
    /// A packet size that the transport does not have.
    #[error("`transport.mtu` is {value} byte, and must be 256, 512, 1024, 2048 or 4096")]
    NotAnMtu {
        /// The size given.
        value: u64,
    },
    /// A figure whose source is empty.
    #[error("`{name}` has no source")]
    NoSource {
        /// The figure.
        name: String,
    },
}
