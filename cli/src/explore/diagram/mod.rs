//! A run as a space-time diagram: nodes are columns, time goes down, each thing that happened has a line of its own.

mod draw;
mod layout;

use layout::Layout;
use weft_check::explore::Run;

/// The drawing, as SVG that needs nothing beside itself.
pub fn svg(world: &str, run: &Run) -> String {
    draw::svg(world, &Layout::of(run), run.violation.as_ref())
}

/// Text as XML has it.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
