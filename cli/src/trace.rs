//! `-v`: what happens on the fabric, line by line on standard error, each at its virtual time.

use std::fmt::{self, Write as _};
use std::io::Write as _;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// Kinds of events that happen with every message or object: those that `-v` leaves out and `-vv` shows.
const FREQUENT: [&str; 12] =
    ["step", "post", "tx", "rx", "ignore", "execute", "complete", "poll", "arm", "event", "wake", "timer"];

/// Shows tracing events: with 1 what goes wrong and what changes, with 2 everything, with 0 nothing.
pub fn install(verbosity: u8) {
    if verbosity == 0 {
        return;
    }
    let lines = Lines { all: verbosity > 1 }.with_filter(Targets::new().with_target("weft", Level::TRACE));
    // There is no other subscriber in this process to be in the way.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(lines));
}

/// Prints an event as a line. Its time is a field of the event: a machine's clock knows nothing of it.
struct Lines {
    all: bool,
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        if self.all || !FREQUENT.contains(&line.kind.as_str()) {
            // Whoever reads may have gone.
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        }
    }
}

/// The fields of an event: those that every event of the fabric has, and others.
#[derive(Default)]
struct Line {
    nanos: Option<u64>,
    node: Option<u64>,
    kind: String,
    message: String,
    others: String,
}

impl Visit for Line {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "t" => self.nanos = Some(value),
            "node" => self.node = Some(value),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "kind" => self.kind = value.to_string(),
            _ => self.record_debug(field, &format_args!("{value}")),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.others, " {name}={value:?}"),
        };
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nanos {
            Some(nanos) => write!(f, "{:>14.3} us ", nanos as f64 / 1e3)?,
            None => write!(f, "{:>17} ", "")?,
        }
        match self.node {
            Some(node) => write!(f, "n{node:<4}")?,
            None => write!(f, "{:5}", "")?,
        }
        write!(f, "{:<8} {}{}", self.kind, self.message, self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Keeps lines instead of printing them.
    struct Keep(Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Keep {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let mut line = Line::default();
            event.record(&mut line);
            self.0.lock().expect("one thread").push(line.to_string());
        }
    }

    #[test]
    fn a_line_has_the_virtual_time_of_its_event() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let subscriber = tracing_subscriber::registry().with(Keep(kept.clone()));
        tracing::subscriber::with_default(subscriber, || {
            let details = format_args!("qp={} psn={}", 17, 5);
            tracing::debug!(target: "weft::fabric", t = 4_070_u64, node = 1_u32, kind = "rx", "{details}");
            tracing::debug!(target: "weft::fabric", "no time");
        });
        let lines = kept.lock().expect("one thread");
        assert_eq!(lines[0], "         4.070 us n1   rx       qp=17 psn=5");
        assert_eq!(lines[1].trim(), "no time");
    }
}
