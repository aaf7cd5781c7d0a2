//! A run as a space-time diagram: nodes are columns, time goes down, each thing that happened has a line of its own.
//!
//! Any [`Run`] that was made with a trace ([`replay`](crate::explore::replay)) is drawn by one call,
//! whatever the model is: [`svg`] makes the drawing, [`page()`] a page for a browser with the drawing, the run's facts and its log.

mod draw;
mod layout;
mod page;

use crate::explore::Run;
use layout::Layout;

pub use page::{facts, page};

/// The drawing, as SVG that needs nothing beside itself.
pub fn svg(title: &str, run: &Run) -> String {
    draw::svg(title, &Layout::of(run), run.violation.as_ref())
}

/// Text as XML has it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
