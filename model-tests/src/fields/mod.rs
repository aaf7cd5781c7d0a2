//! What fields of a scenario file are made of: quantities as a person writes them, and the rules that types cannot express.

mod dice;
pub mod draw;
mod rules;
mod units;
mod usual;

pub use dice::Dice;
pub(crate) use rules::LONGEST;
pub use rules::{
    Broken, Rule, Step, between, broken, clients, count, in_section, positive, requests_or_duration,
};
pub use units::{Rate, Share, Span, Spread};
pub use usual::{no_time, one};
